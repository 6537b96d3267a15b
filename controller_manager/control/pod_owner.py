"""What the controllers of replica sets, daemon sets and jobs share: owners of pods.

With a stale cache a pod would be created twice. So a sync writes only when the cache
shows the writes of the syncs before, and reads from the API server when it is not known
what became of them.
"""

from collections.abc import Awaitable, Callable
from typing import ClassVar, Final, TypeVar

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import AnyResource, CompleteObject, KubeObject, key_of
from controller_manager.api.selectors import Selector
from controller_manager.client.rest import errors
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import Requeue, earliest
from controller_manager.runtime.reconciler import Reconciler

from . import expectations
from .pod_control import PodControl, slow_start

_UNSEEN_RECHECK: Final = 5.0
"""Seconds until the next sync while the cache does not show all writes."""

OwnerT = TypeVar("OwnerT", bound=CompleteObject)


class PodOwnerReconciler(Reconciler[OwnerT]):
    """Keeps what owners of pods expect of the cache.

    A subclass declares ``Owns(PODS)``, and sets `stale_syncs`.
    """

    always_rechecks: ClassVar[bool] = False
    """True if a manager without an election also asks what was written before it."""

    stale_syncs: expectations.StaleSyncs

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = self.lister(PODS)
        self._expectations = expectations.Expectations(context.clock)
        elected = context.config.generic.leader_election.leader_elect
        self._takeover = expectations.Takeover(
            context.server_clock, elected=elected or self.always_rechecks
        )
        self._reads = expectations.OwnerReads(
            context.client, self.resource, self.objects, context.consistency
        )
        self._pod_control = PodControl(context.client, context.recorder, self.resource)

    def starting(self) -> None:
        """Note that this process begins to lead."""
        self._takeover.start_leading()
        self._reads.start_leading()

    def deleted(self, obj: OwnerT) -> None:
        """Drop the state of an owner, so that a new one of its name starts afresh."""
        self.forget(key_of(obj))
        self._reads.forget(obj)

    def forget(self, key: str) -> None:
        """Drop the state of a key whose owner is gone."""
        self._expectations.forget(key)
        self._takeover.forget(key)

    def dependent_added(self, key: str, obj: KubeObject) -> None:
        """Expect one creation fewer."""
        if isinstance(obj, Pod):
            self._expectations.creations_settled(key)

    def dependent_gone(self, key: str, obj: KubeObject) -> None:
        """Hand on the pods among the dependents."""
        if isinstance(obj, Pod):
            self.pod_gone(key, obj)

    def pod_gone(self, key: str, pod: Pod) -> None:
        """Stop expecting the deletion of this pod."""
        self._expectations.deletion_settled(key, pod.metadata.uid)

    def is_known_gone(self, obj: OwnerT) -> bool:
        """Tell whether the API server has said that this cached owner is gone."""
        return self._reads.is_known_gone(obj)

    def stale(self, resource: AnyResource) -> None:
        """Count a sync that waits for a cache, if upstream's gate is enabled."""
        if self.reads_own_writes:
            self.stale_syncs.count(resource)

    # Steps of a sync.

    def _expected(self, key: str) -> expectations.State:
        """Return the state of the expectations when a sync begins."""
        if self.reads_own_writes:
            self._expectations.cache_caught_up(key)
        return self._expectations.state(key)

    def _is_settled(self, key: str) -> bool:
        return self._expectations.state(key) is expectations.State.FULFILLED

    async def _read_api_server(
        self, owner: OwnerT, selector: Selector, *, is_takeover: bool = False
    ) -> Requeue:
        """Wait until the caches show all writes, before the next writes.

        This is needed if a write got no response, was not visible for five minutes, or
        may have been made by the former leader.
        """
        key = key_of(owner)
        stored = await self._reads.wait_for_all_caches(
            owner, selector, is_takeover=is_takeover
        )
        self._listed(owner, stored)
        self._expectations.forget(key)
        self._takeover.rechecked(key)
        self.logger.v(2).info(
            "The cache may be stale, so the pods are read from the API server"
        )
        return Requeue(0.0, "the cache may be stale")

    def _listed(self, owner: OwnerT, stored: expectations.StoredPods) -> None:
        """Note the pods that the API server has; nothing by default."""

    async def _create_pods(
        self, key: str, count: int, create: Callable[[], Awaitable[None]]
    ) -> Exception | None:
        """Create pods that are expected already, by slow start; return the failure.

        That the namespace is being deleted is none: no object can be created there.
        """

        async def create_one() -> None:
            try:
                await create()
            except Exception as error:
                if errors.may_be_applied(error):
                    self._expectations.outcome_unknown(key)
                else:
                    self._expectations.creations_settled(key)
                raise

        started, failure = await slow_start(count, create_one)
        # The watch never shows creations that were not tried.
        self._expectations.creations_settled(key, count - started)
        if failure is not None and errors.is_namespace_terminating(failure):
            return None
        return failure

    async def _delete_pod(self, owner: OwnerT, pod: Pod) -> None:
        try:
            await self._pod_control.delete(owner, pod)
        except errors.NotFound:
            self._expectations.deletion_settled(key_of(owner), pod.metadata.uid)
        except (errors.APIError, errors.TransportError):
            # Deleting the same pod twice does no harm, so the outcome of this
            # deletion need not be known.
            self._expectations.deletion_settled(key_of(owner), pod.metadata.uid)
            raise

    def _requeue_after(self, key: str, next_change: float | None) -> float | None:
        # While a write of this sync is not visible, the next sync must not depend on an
        # event: a pod can be created and deleted while the watch is broken.
        return earliest(None if self._is_settled(key) else _UNSEEN_RECHECK, next_change)
