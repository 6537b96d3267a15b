"""Reports unscheduled pods, with a condition and an event."""

from controller_manager.api.json_objects import JSON
from controller_manager.api.times import format_time
from controller_manager.devcluster.kinds.core.pod.strategy import KIND as POD
from controller_manager.devcluster.nodes.events import Reporter
from controller_manager.devcluster.server.registry.objects import Objects


class FailureHandler:
    """Writes the reason why a pod waits, if it is new."""

    def __init__(self, objects: Objects, report: Reporter) -> None:
        self._objects = objects
        self._report = report

    def write(self, pod: JSON, message: str, nominated: str | None = None) -> None:
        """Write the condition and the event of a pod that waits.

        `nominated` is the node whose pods are evicted for the pod, empty for none;
        `None` keeps the present value.
        """
        status = pod.get("status", {})
        conditions = status.get("conditions", [])
        old: JSON = {}
        for each in conditions:
            if each["type"] == "PodScheduled":
                old = each
        was = status.get("nominatedNodeName", "")
        nominated = was if nominated is None else nominated
        if old.get("message") == message and nominated == was:
            return
        others = [each for each in conditions if each is not old]
        new = {**status, "conditions": [*others, self._condition(pod, message, old)]}
        new.pop("nominatedNodeName", None)
        if nominated:
            new["nominatedNodeName"] = nominated
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        shown = {**pod, "status": new}
        self._objects.update(POD, namespace, name, shown, "status")
        self._report.unschedulable(pod, message)

    def _condition(self, pod: JSON, message: str, old: JSON) -> JSON:
        since = old.get("lastTransitionTime") if old.get("status") == "False" else None
        return {
            "type": "PodScheduled",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": since or format_time(self._objects.clock.now()),
        }
