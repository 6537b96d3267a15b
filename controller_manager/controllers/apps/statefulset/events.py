"""The events of the stateful set controller (stateful_pod_control.go)."""

from collections.abc import Mapping
from typing import Final, Literal

from controller_manager.api.apps.v1 import STATEFUL_SETS, StatefulSet
from controller_manager.client.events import NORMAL, WARNING, EventRecorder

Verb = Literal["Create", "Update", "Delete"]

_SUCCESS: Final[Mapping[Verb, str]] = {
    "Create": "SuccessfulCreate",
    "Update": "SuccessfulUpdate",
    "Delete": "SuccessfulDelete",
}
_FAILURE: Final[Mapping[Verb, str]] = {
    "Create": "FailedCreate",
    "Update": "FailedUpdate",
    "Delete": "FailedDelete",
}


class StatefulSetEvents:
    """Records events about one stateful set; an `error` makes an event a warning."""

    def __init__(self, recorder: EventRecorder, stateful_set: StatefulSet) -> None:
        self._recorder = recorder
        self._stateful_set = stateful_set

    def pod(self, verb: Verb, pod: str, error: Exception | None = None) -> None:
        """Record that a pod was created, updated or deleted, or the failure of it."""
        about = f"{verb} Pod {pod} in StatefulSet {self._stateful_set.metadata.name}"
        if error is None:
            self._record(NORMAL, _SUCCESS[verb], f"{about} successful")
        else:
            self._record(WARNING, _FAILURE[verb], f"{about} failed error: {error}")

    def claim(self, claim: str, pod: str, error: Exception | None = None) -> None:
        """Record the creation of a claim; upstream has a message for each result."""
        name = self._stateful_set.metadata.name
        if error is None:
            message = f"Create Claim {claim} Pod {pod} in StatefulSet {name} success"
            self._record(NORMAL, _SUCCESS["Create"], message)
        else:
            message = (
                f"Create Claim {claim} for Pod {pod} in StatefulSet {name} "
                f"failed error: {error}"
            )
            self._record(WARNING, _FAILURE["Create"], message)

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
