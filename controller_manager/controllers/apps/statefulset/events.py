"""The events of the stateful set controller (stateful_pod_control.go)."""

from controller_manager.api.apps.v1 import STATEFUL_SETS, StatefulSet
from controller_manager.client.events import NORMAL, WARNING, EventRecorder


class StatefulSetEvents:
    """Records events about one stateful set.

    `verb` is Create, Update or Delete. An `error` makes an event a warning.
    """

    def __init__(self, recorder: EventRecorder, stateful_set: StatefulSet) -> None:
        """Take the recorder and the set."""
        self._recorder = recorder
        self._stateful_set = stateful_set

    def pod(self, verb: str, pod: str, error: Exception | None = None) -> None:
        """Record what was done to a pod."""
        about = f"{verb} Pod {pod} in StatefulSet {self._stateful_set.metadata.name}"
        if error is None:
            self._record(NORMAL, f"Successful{verb}", f"{about} successful")
        else:
            self._record(WARNING, f"Failed{verb}", f"{about} failed error: {error}")

    def claim(self, claim: str, pod: str, error: Exception | None = None) -> None:
        """Record the creation of a claim; upstream's two messages differ."""
        name = self._stateful_set.metadata.name
        if error is None:
            message = f"Create Claim {claim} Pod {pod} in StatefulSet {name} success"
            self._record(NORMAL, "SuccessfulCreate", message)
        else:
            message = (
                f"Create Claim {claim} for Pod {pod} in StatefulSet {name} "
                f"failed error: {error}"
            )
            self._record(WARNING, "FailedCreate", message)

    def conflict(self, claim: str) -> None:
        """Record that another controller owns a claim; the spelling is upstream's."""
        message = (
            f"PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts "
            "as a manging controller, the retention policy is ignored for this claim"
        )
        self._record(WARNING, "ConflictingController", message)

    def _record(self, event_type: str, reason: str, message: str) -> None:
        self._recorder.event(
            STATEFUL_SETS, self._stateful_set, event_type, reason, message
        )
