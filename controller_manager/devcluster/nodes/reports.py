"""Events of the scheduler, of kubelets and of the driver of volumes."""

from typing import Any, Final

from controller_manager.api.times import format_micro_time, format_time
from controller_manager.devcluster.kinds.core.event import KIND as EVENT
from controller_manager.devcluster.server.objects import Objects
from controller_manager.devcluster.server.statuses import Refusal

JSON = dict[str, Any]

SCHEDULER: Final = "default-scheduler"
_LONGEST: Final = 1024
"""An API server refuses a longer message."""


class Reporter:
    """Creates events about objects."""

    def __init__(self, objects: Objects) -> None:
        """Take the objects of the API server in the same process."""
        self._objects = objects

    def scheduler(self, pod: JSON, message: str) -> None:
        """Report that a pod cannot be scheduled, as an event of events.k8s.io."""
        now = self._objects.clock.now()
        series: JSON = {
            "eventTime": format_micro_time(now),
            "action": "Scheduling",
            "reportingComponent": SCHEDULER,
            "reportingInstance": f"{SCHEDULER}-devcluster",
        }
        self._create(pod, "Warning", "FailedScheduling", message, series)

    def other(
        self, component: str, obj: JSON, kind: str, reason: str, message: str
    ) -> None:
        """Report about an object; `kind` is Normal or Warning."""
        now = format_time(self._objects.clock.now())
        source: JSON = {"component": component}
        if component == "kubelet":
            source["host"] = obj["spec"].get("nodeName", obj["metadata"]["name"])
        times = {"firstTimestamp": now, "lastTimestamp": now, "count": 1}
        more: JSON = {"source": source, "reportingComponent": component, **times}
        self._create(obj, kind, reason, message, more)

    def kubelet_started(self, node: JSON) -> None:
        """Report that the kubelet of a node has started, as kubelets do.

        They name the node by its name in place of its uid.
        """
        name = node["metadata"]["name"]
        known = {**node, "metadata": {**node["metadata"], "uid": name}}
        for reason, message in (
            ("Starting", "Starting kubelet."),
            ("NodeReady", f"Node {name} status is now: NodeReady"),
        ):
            self.other("kubelet", known, "Normal", reason, message)

    def _create(
        self, obj: JSON, kind: str, reason: str, message: str, more: JSON
    ) -> None:
        metadata = obj["metadata"]
        namespace = metadata.get("namespace") or "default"
        event = {
            "metadata": {
                "generateName": f"{metadata['name']}.",
                "namespace": namespace,
            },
            "involvedObject": {
                "kind": obj["kind"],
                "apiVersion": obj["apiVersion"],
                "name": metadata["name"],
                "namespace": metadata.get("namespace", ""),
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "reason": reason,
            "message": message[:_LONGEST],
            "type": kind,
            **more,
        }
        try:
            self._objects.create(EVENT, namespace, event)
        except Refusal:
            return  # the namespace is being deleted, and takes no events any more
