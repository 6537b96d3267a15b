"""The events of kubelets, scheduler and volumes: reported, counted, expired."""

from datetime import datetime
from itertools import islice
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_micro_time, format_time
from controller_manager.client.events.correlator import Correlator, Merged, Occurrence
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.registry.core.cluster import NAMESPACES as NAMESPACE
from controller_manager.devcluster.registry.events import CORE_EVENTS as EVENT
from controller_manager.devcluster.storage import key_of

# The events that a kubelet reports about a container.


class Note(Struct, frozen=True):
    """The type, the reason and the message of an event."""

    kind: str
    reason: str
    message: str


def normal(reason: str, message: str) -> Note:
    """Return a note of the type Normal."""
    return Note("Normal", reason, message)


def warning(reason: str, message: str) -> Note:
    """Return a note of the type Warning."""
    return Note("Warning", reason, message)


# Events of the scheduler, of kubelets and of the driver of volumes.

SCHEDULER: Final = "default-scheduler"
KUBELET: Final = "kubelet"
_MOST_EVENTS: Final = 100_000
_DROPPED: Final = 1000
"""The most events, and the number of events that are deleted beyond it."""

_LONGEST: Final = 1024
"""An API server refuses a longer message."""


class Reporter:
    """Creates events about objects, and counts those that are repeated."""

    def __init__(self, objects: Objects, *, details: bool = True) -> None:
        """Take the objects of the API server in the same process.

        Without `details`, there are events only for problems of pods.
        """
        self._objects = objects
        self._namespaces = objects.storage.collection(NAMESPACE.resource)
        self._events = objects.storage.collection(EVENT.resource)
        self._details = details
        self._correlators: dict[tuple[str, str], Correlator] = {}
        self._last_name = 0

    def scheduler(
        self, pod: JSON, note: Note, action: str, related: JSON | None = None
    ) -> None:
        """Report what the scheduler did with a pod, as an event of events.k8s.io.

        `related` is another object that the event concerns.
        """
        if note.kind == "Normal" and not self._details:
            return
        now = self._objects.clock.now()
        event: JSON = {
            "involvedObject": _reference(pod),
            "reason": note.reason,
            "message": note.message[:_LONGEST],
            "type": note.kind,
            "eventTime": format_micro_time(now),
            "action": action,
            "reportingComponent": SCHEDULER,
            "reportingInstance": f"{SCHEDULER}-devcluster",
        }
        if related is not None:
            event["related"] = _reference(related)
        event |= {"firstTimestamp": None, "lastTimestamp": None, "source": {}}
        namespace = pod["metadata"].get("namespace") or "default"
        self._create(namespace, self._name(pod, now), event, now)

    def unschedulable(self, pod: JSON, message: str) -> None:
        """Report that a pod cannot be scheduled."""
        self.scheduler(pod, warning("FailedScheduling", message), "Scheduling")

    def kubelet(self, pod: JSON, note: Note, field_path: str = "") -> None:
        """Report about a pod, or about one of its containers at `field_path`."""
        if self._details or note.kind != "Normal":
            self._count(KUBELET, pod["spec"].get("nodeName", ""), pod, note, field_path)

    def other(
        self, component: str, obj: JSON, kind: str, reason: str, message: str
    ) -> None:
        """Report about an object; `kind` is Normal or Warning."""
        host = ""
        if component == KUBELET:
            host = obj["spec"].get("nodeName", obj["metadata"]["name"])
        self._count(component, host, obj, Note(kind, reason, message))

    def kubelet_started(self, node: JSON) -> None:
        """Report that the kubelet of a node has started, as kubelets do.

        The event has the name of the node instead of its uid.
        """
        name = node["metadata"]["name"]
        known = {**node, "metadata": {**node["metadata"], "uid": name}}
        for note in (
            normal("Starting", "Starting kubelet."),
            normal("NodeReady", f"Node {name} status is now: NodeReady"),
        ):
            self._count(KUBELET, name, known, note)

    def _count(
        self, component: str, host: str, obj: JSON, note: Note, field_path: str = ""
    ) -> None:
        now = self._objects.clock.now()
        time, reference = format_time(now), _reference(obj, field_path)
        namespace, message = reference["namespace"] or "default", note.message
        involved = (reference["kind"], namespace, reference["name"], reference["uid"])
        occurrence = Occurrence(
            (component, host, *involved),
            note.kind,
            note.reason,
            field_path,
            message if len(message) <= _LONGEST else message[:_LONGEST],
            self._name(obj, now),
            time,
        )
        correlator = self._correlators.get((component, host))
        if correlator is None:
            correlator = Correlator(self._objects.clock)
            self._correlators[component, host] = correlator
        merged = correlator.merged(occurrence)
        if merged is not None and not self._counted(namespace, merged, time):
            event = _json(occurrence, merged, reference)
            self._create(namespace, occurrence.name, event, now)

    def _counted(self, namespace: str, merged: Merged, time: str) -> bool:
        """Increase the count of an event; tell whether there is one."""
        key = (namespace, merged.name)
        if merged.count == 1 or not self._objects.has(EVENT, *key):
            return False
        stored = self._objects.find(EVENT, *key).obj
        patch = {
            "count": merged.count,
            "lastTimestamp": time,
            "message": merged.message,
        }
        self._objects.update(EVENT, *key, {**stored, **patch})
        return True

    def _name(self, obj: JSON, now: datetime) -> str:
        """Return the name of an event: it contains nanoseconds."""
        nanoseconds = int(now.timestamp() * 1e6) * 1000
        self._last_name = max(self._last_name + 1, nanoseconds)
        return f"{obj['metadata']['name']}.{self._last_name:x}"

    def _create(self, namespace: str, name: str, event: JSON, now: datetime) -> None:
        """Store an event with all its fields, unless its namespace is being deleted."""
        found = self._namespaces.get(("", namespace))
        if found is None or "deletionTimestamp" in found.obj["metadata"]:
            return
        self._objects.insert(EVENT, (namespace, name), event, now)
        if len(self._events) > _MOST_EVENTS:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Delete some events before they expire: 100,000 pods have 400,000."""
        for stored in islice(self._events, _DROPPED):
            self._events.remove(key_of(stored.obj))


def _reference(obj: JSON, field_path: str = "") -> JSON:
    metadata = obj["metadata"]
    reference = {
        "kind": obj["kind"],
        "apiVersion": obj["apiVersion"],
        "name": metadata["name"],
        "namespace": metadata.get("namespace", ""),
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }
    return {**reference, "fieldPath": field_path} if field_path else reference


def _json(occurrence: Occurrence, merged: Merged, reference: JSON) -> JSON:
    """Return a new event; its name is that of the occurrence.

    An event that was counted before but is gone keeps its count.
    """
    component, host, *_ = occurrence.source
    return {
        "involvedObject": reference,
        "reason": occurrence.reason,
        "message": merged.message,
        "source": {"component": component, "host": host}
        if host
        else {"component": component},
        "firstTimestamp": merged.first_timestamp,
        "lastTimestamp": occurrence.time,
        "count": merged.count,
        "type": occurrence.type,
        "reportingComponent": component,
        "reportingInstance": host,
        "eventTime": None,
    }
