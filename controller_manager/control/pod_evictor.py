"""Evicts pods because of a taint: sets their condition, then deletes them."""

from collections.abc import Callable
from typing import Any, ClassVar, Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from controller_manager.api.core.v1 import PODS, Pod, PodMeta
from controller_manager.api.meta import is_deleting, true_condition
from controller_manager.api.scalars import format_time
from controller_manager.client.events.recorder import NORMAL
from controller_manager.client.rest.errors import NotFound, is_about
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import SyncError

_TYPE: Final = "DisruptionTarget"
_SECONDS: Final = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)


class PodEvictor:
    """Sets the condition DisruptionTarget of a pod, and deletes the pod, by its uid.

    Upstream: addConditionAndDeletePod of tainteviction and of devicetainteviction.
    """

    def __init__(
        self,
        context: ControllerContext,
        reason: str,
        message: str,
        event: str,
        *,
        observes_generation: bool,
    ) -> None:
        """Take the texts of the condition, and whether it has an observedGeneration.

        `event` is the reason of all events.
        """
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._event = event
        self._reason = reason
        self._message = message
        self._observes_generation = observes_generation

    def announce(self, key: str, uid: str, message: str) -> None:
        """Record an event about a pod, which may be gone.

        Upstream's reference to the pod has no version, and for taints of nodes no uid:
        with the uid, `kubectl describe pod` shows the event.
        """
        namespace, _, name = key.partition("/")
        pod = Pod(metadata=PodMeta(namespace=namespace, name=name, uid=uid))
        self._recorder.event(PODS, pod, NORMAL, self._event, message)

    def has_evicted(self, pod: Pod) -> bool:
        """Tell whether this controller, or one before it, has evicted a pod already."""
        return is_deleting(pod) and self._has_marked(pod)

    def _has_marked(self, pod: Pod) -> bool:
        marked = true_condition(pod.status.conditions, _TYPE)
        return marked is not None and marked.reason == self._reason

    async def evict(self, pod: Pod, is_same: Callable[[Pod], bool]) -> bool:
        """Evict a pod; tell whether this call deleted it: it may be gone already.

        `is_same` gets the pod as it is stored, once it is marked. Raises SyncError if
        it returns False, and Conflict if another pod has the name now.
        """
        try:
            if not self._has_marked(pod) and not is_same(await self._mark(pod)):
                msg = "the pod has changed"
                raise SyncError(msg)
            await self._client.delete_exactly(PODS, pod)
        except NotFound as error:
            if not is_about(error, pod.metadata.name):
                raise
            return False
        return True

    async def _mark(self, pod: Pod) -> Pod:
        condition: dict[str, Any] = {
            "type": _TYPE,
            "status": "True",
            "reason": self._reason,
            "message": self._message,
        }
        if true_condition(pod.status.conditions, _TYPE) is None:
            # Otherwise it is true for another reason, and its time stays.
            condition["lastTransitionTime"] = format_time(self._clock.now())
        if self._observes_generation and pod.metadata.generation:
            condition["observedGeneration"] = pod.metadata.generation
        patch = {"status": {"conditions": [condition]}}
        return await self._client.patch_exactly(PODS, pod, patch, subresource="status")


class EvictionMetrics:
    """The metrics of a controller that evicts pods; a subclass has their prefix."""

    prefix: ClassVar[str]

    def __init__(self, registry: CollectorRegistry) -> None:
        self._deletions = Counter(
            f"{self.prefix}_pod_deletions_total",
            "Number of pods that were deleted since this process started",
            registry=registry,
        )
        self._seconds = Histogram(
            f"{self.prefix}_pod_deletion_duration_seconds",
            "Seconds between the time when a pod was to be evicted and its deletion",
            buckets=_SECONDS,
            registry=registry,
        )

    def deleted(self, seconds: float) -> None:
        """Count a pod that was deleted some seconds after its eviction was due."""
        self._deletions.inc()
        self._seconds.observe(seconds)
