"""Evicts a pod: marks it as the target of a disruption, and deletes it."""

from typing import Any, Final

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.times import format_time
from controller_manager.client.client import DeleteOptions
from controller_manager.client.errors import Conflict, NotFound, is_about
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import SyncError

_TYPE: Final = "DisruptionTarget"
_TRUE: Final = "True"
_REASON: Final = "DeletionByTaintManager"
_MESSAGE: Final = "Taint manager: deleting due to NoExecute taint"


def is_marked(pod: Pod) -> bool:
    """Tell whether a pod has the condition that this controller sets."""
    return any(
        each.type == _TYPE and each.status == _TRUE and each.reason == _REASON
        for each in pod.status.conditions or ()
    )


def is_evicted(pod: Pod) -> bool:
    """Tell whether this controller, or one before it, has evicted a pod already."""
    return is_deleting(pod) and is_marked(pod)


class Evictor:
    """Writes the condition and then deletes (addConditionAndDeletePod).

    The uid is a precondition of both: a later pod of the same name stays.
    """

    def __init__(self, context: ControllerContext) -> None:
        """Take the client and the clock."""
        self._client = context.client
        self._clock = context.clock

    async def evict(self, pod: Pod) -> bool:
        """Evict a pod; tell whether this call deleted it: it may be gone already.

        Raises SyncError if its tolerations have changed in the meantime.
        """
        metadata = pod.metadata
        where = (metadata.namespace, metadata.name)
        try:
            if not is_marked(pod):
                await self._mark(pod)
            await self._client.delete(PODS, *where, DeleteOptions(uid=metadata.uid))
        except Conflict:
            return False  # another pod has its name now
        except NotFound as error:
            if not is_about(error, metadata.name):
                raise
            return False
        return True

    async def _mark(self, pod: Pod) -> None:
        metadata = pod.metadata
        condition: dict[str, Any] = {
            "type": _TYPE,
            "status": _TRUE,
            "reason": _REASON,
            "message": _MESSAGE,
        }
        if not _is_disrupted(pod):
            condition["lastTransitionTime"] = format_time(self._clock.now())
        if metadata.generation:
            condition["observedGeneration"] = metadata.generation
        patch = {
            "metadata": {"uid": metadata.uid},
            "status": {"conditions": [condition]},
        }
        stored = await self._client.patch(
            PODS, metadata.namespace, metadata.name, patch, subresource="status"
        )
        if stored.spec.tolerations != pod.spec.tolerations:
            msg = "the tolerations of the pod have changed"
            raise SyncError(msg)


def _is_disrupted(pod: Pod) -> bool:
    """Tell whether the condition is true for another reason: its time stays."""
    return any(
        each.type == _TYPE and each.status == _TRUE
        for each in pod.status.conditions or ()
    )
