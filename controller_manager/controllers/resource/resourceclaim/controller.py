"""The queue of pods, groups of pods and claims (controller.go of resourceclaim)."""

from collections.abc import Awaitable, Callable, Iterator, Mapping

from controller_manager.api.core.v1 import PODS
from controller_manager.api.dynamicresources.v1 import RESOURCE_CLAIMS
from controller_manager.runtime.consistency import requeue_for
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.outcome import Outcome

from .claims import ClaimSync
from .create import ClaimCreator
from .handlers import CLAIM, GROUP, POD, ClaimHandlers
from .indexes import CLAIMS_BY_KIND
from .metrics import ResourceClaimMetrics
from .options import ResourceClaimOptions
from .pod_groups import PodGroups
from .pods import PodSync
from .reservations import Reserver
from .tracker import DeletedPods


def init_resource_claim_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (newResourceClaimController)."""
    return ResourceClaimController(context).workers()


class ResourceClaimController:
    """Gives pods their claims, and removes claims from pods that are gone.

    A key is ``pod:``, ``podgroup:`` or ``claim:``, and then ``namespace/name``. A key
    waits until the caches show what its last sync has written, so that no claim is
    created twice.
    """

    def __init__(self, context: ControllerContext) -> None:
        """Take the context; watch pods, claims and templates."""
        self._context = context
        self._queue = context.queue("resource_claim")
        gone = DeletedPods()
        creator = ClaimCreator(context)
        groups = PodGroups(context, creator)
        reserver = Reserver(context)
        pods = PodSync(context, creator, reserver, groups)
        claims = ClaimSync(context, reserver, groups, gone)
        self._syncs: Mapping[str, Callable[[str], Awaitable[Outcome]]] = {
            POD: pods.sync,
            GROUP: groups.sync,
            CLAIM: claims.sync,
        }
        self._groups = groups
        self._pods = context.lister(PODS)
        self._claims = context.lister(RESOURCE_CLAIMS, CLAIMS_BY_KIND)
        self._is_cached: Mapping[str, Callable[[str], object]] = {
            POD: self._pods.by_key,
            GROUP: groups.by_key,
            CLAIM: self._claims.by_key,
        }
        context.metrics.of(ResourceClaimMetrics).count(self._claims)
        self._creator = creator
        self._watch = ClaimHandlers(
            context, self._queue.add, gone, pods, groups, creator
        )

    def workers(self) -> Controller:
        """Return the workers, not yet running."""
        context = self._context
        context.consistency.records_writes = True
        count = context.config.of(ResourceClaimOptions).concurrent_syncs
        return context.workers(self._queue, self.sync, count, self._enqueue_all)

    async def sync(self, key: str) -> Outcome:
        """Sync a pod, a group of pods or a claim."""
        kind, colon, name = key.partition(":")
        consistency = self._context.consistency
        if not self._is_cached[kind + colon](name):
            consistency.forget(key)
        if (stale := consistency.stale_cache(key)) is not None:
            return requeue_for(stale)
        return await self._syncs[kind + colon](name)

    def _enqueue_all(self) -> Iterator[None]:
        """Enqueue all objects when this process begins to lead.

        A pod may have been deleted while no process led, so all claims are checked.
        """
        self._creator.start_leading()
        each = self._context.one_by_one
        yield from each(self._pods.all(), self._watch.pod_changed)
        yield from each(self._groups.all(), self._watch.group_changed)
        yield from each(self._claims.all(), self._watch.claim_changed)
