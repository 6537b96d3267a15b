"""Events of the scheduler, of kubelets and of the driver of volumes.

They are counted and limited as those of client-go's recorders (`client.correlator`).
"""

from itertools import islice
from typing import Final

from controller_manager.api.core.v1 import Event, EventSource, ObjectReference
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.times import format_micro_time, format_time
from controller_manager.client.correlator import Correlated, Correlator
from controller_manager.devcluster.kinds.core.event import KIND as EVENT
from controller_manager.devcluster.kinds.core.namespace import KIND as NAMESPACE
from controller_manager.devcluster.nodes.event_notes import Note, normal, warning
from controller_manager.devcluster.server.registry.objects import Objects

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
        self._correlators: dict[str, Correlator] = {}
        self._last_name = 0

    def scheduler(
        self, pod: JSON, note: Note, action: str, related: JSON | None = None
    ) -> None:
        """Report what the scheduler did with a pod, as an event of events.k8s.io.

        `related` is another object that the event concerns.
        """
        if note.kind == "Normal" and not self._details:
            return
        event: JSON = {
            "involvedObject": _reference(pod),
            "reason": note.reason,
            "message": note.message[:_LONGEST],
            "type": note.kind,
            "eventTime": format_micro_time(self._objects.clock.now()),
            "action": action,
            "reportingComponent": SCHEDULER,
            "reportingInstance": f"{SCHEDULER}-devcluster",
        }
        if related is not None:
            event["related"] = _reference(related)
        self._create(
            pod["metadata"].get("namespace") or "default", self._name(pod), event
        )

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
        """Create an event, or increase the count of an existing one."""
        now = format_time(self._objects.clock.now())
        reference = _reference(obj, field_path)
        namespace = reference.get("namespace") or "default"
        event = Event(
            metadata=ObjectMeta(name=self._name(obj), namespace=namespace),
            involved_object=ObjectReference(
                kind=reference["kind"],
                namespace=namespace,
                name=reference["name"],
                uid=reference["uid"],
                field_path=field_path,
            ),
            reason=note.reason,
            message=note.message[:_LONGEST],
            source=EventSource(component=component, host=host),
            first_timestamp=now,
            last_timestamp=now,
            count=1,
            type=note.kind,
        )
        correlator = self._correlators.get(f"{component} {host}")
        if correlator is None:
            correlator = Correlator(self._objects.clock)
            self._correlators[f"{component} {host}"] = correlator
        correlated = correlator.correlate(event)
        if correlated is not None and not self._counted(correlated):
            self._create(namespace, event.metadata.name, _json(correlated, reference))

    def _counted(self, correlated: Correlated) -> bool:
        """Increase the count of an event; tell whether there is one."""
        metadata = correlated.event.metadata
        key = (metadata.namespace, metadata.name)
        if correlated.patch is None or not self._objects.has(EVENT, *key):
            return False
        stored = self._objects.find(EVENT, *key).obj
        self._objects.update(EVENT, *key, {**stored, **correlated.patch})
        return True

    def _name(self, obj: JSON) -> str:
        """Return the name of an event: it contains nanoseconds."""
        nanoseconds = int(self._objects.clock.now().timestamp() * 1e6) * 1000
        self._last_name = max(self._last_name + 1, nanoseconds)
        return f"{obj['metadata']['name']}.{self._last_name:x}"

    def _create(self, namespace: str, name: str, event: JSON) -> None:
        """Store an event, unless its namespace is being deleted."""
        found = self._namespaces.get(("", namespace))
        if found is None or "deletionTimestamp" in found.obj["metadata"]:
            return
        EVENT.apply_defaults(event)
        self._objects.insert(EVENT, (namespace, name), event)
        if len(self._events) > _MOST_EVENTS:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Delete some events before they expire: 100,000 pods have 400,000."""
        for stored in islice(self._events, _DROPPED):
            metadata = stored.obj["metadata"]
            self._events.remove((metadata["namespace"], metadata["name"]))


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


def _json(correlated: Correlated, reference: JSON) -> JSON:
    event = correlated.event
    source = {"component": event.source.component}
    if event.source.host:
        source["host"] = event.source.host
    return {
        "involvedObject": reference,
        "reason": event.reason,
        "message": event.message,
        "source": source,
        "firstTimestamp": event.first_timestamp,
        "lastTimestamp": event.last_timestamp,
        "count": event.count,
        "type": event.type,
        "reportingComponent": event.source.component,
        "reportingInstance": event.source.host,
    }
