"""The queue of pods, groups of pods and claims (controller.go of resourceclaim).

The handlers find the keys that a change concerns (enqueuePod, enqueueResourceClaim).
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Final

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.dynamicresources.v1 import (
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    ResourceClaim,
    ResourceClaimTemplate,
)
from controller_manager.api.meta import key_of
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS, PodGroup
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.consistency import requeue_for
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.outcome import Outcome

from .claims import ClaimSync
from .consumers import claim_names, is_done, of_group, uses_claims
from .create import ClaimCreator
from .indexes import CLAIMS_BY_KIND, PODS_BY_CLAIM, PODS_BY_GROUP, PODS_BY_TEMPLATE
from .metrics import ResourceClaimMetrics
from .options import ResourceClaimOptions
from .pod_groups import PodGroups
from .pods import PodSync
from .reservations import Reserver
from .tracker import DeletedPods

CLAIM: Final = "claim:"
POD: Final = "pod:"
GROUP: Final = "podgroup:"


class ClaimHandlers:
    """Calls `enqueue` with the keys of pods, groups and claims that need a sync.

    The key of a deleted object is enqueued as well, so that its state is dropped.

    Pods without claims cost only a check of their spec. An index finds the pods of a
    claim, of a template and of a group.
    """

    def __init__(
        self,
        context: ControllerContext,
        enqueue: Callable[[str], None],
        gone: DeletedPods,
        pods: PodSync,
        groups: PodGroups,
        creator: ClaimCreator,
    ) -> None:
        """Watch pods, claims and templates, and groups if their gate is enabled."""
        self._enqueue = enqueue
        self._gone = gone
        self._sync = pods
        self._groups = groups
        self._creator = creator
        by_group = (PODS_BY_GROUP,) if groups.is_enabled else ()
        self._pods = context.lister(PODS, PODS_BY_CLAIM, PODS_BY_TEMPLATE, *by_group)
        self._context = context
        self._watch()

    def _watch(self) -> None:
        informers = self._context.informers
        informers.informer(PODS).add_handler(
            Handler(
                on_add=self.pod_changed,
                on_update=lambda _, new: self.pod_changed(new),
                on_delete=self._pod_deleted,
                depends_on=DependsOn(
                    "metadata.deletionTimestamp",
                    "spec.nodeName",
                    "status.extendedResourceClaimStatus",
                    "status.phase",
                    "status.resourceClaimStatuses",
                    reading=("spec.resourceClaims", "spec.schedulingGroup"),
                ),
            )
        )
        informers.informer(RESOURCE_CLAIMS).add_handler(
            Handler(self.claim_changed, self._claim_updated, self.claim_changed)
        )
        informers.informer(RESOURCE_CLAIM_TEMPLATES).add_handler(
            Handler(self._template_added)
        )
        if self._groups.is_enabled:
            informers.informer(POD_GROUPS).add_handler(
                Handler(self._group_added, self._group_updated, self._group_deleted)
            )

    def pod_changed(self, pod: Pod) -> None:
        """Enqueue a pod that needs a sync, or the claims of a pod that is done."""
        if not uses_claims(pod):
            return
        if is_done(pod):
            self._release(pod)
        elif self._sync.needs_sync(pod):
            self._enqueue(POD + key_of(pod))

    def _pod_deleted(self, pod: Pod) -> None:
        if uses_claims(pod):
            self._gone.add(pod.metadata.uid)
            self._creator.forget(pod.metadata.uid)
            self._release(pod)
            self._enqueue(POD + key_of(pod))

    def _release(self, pod: Pod) -> None:
        self._enqueue_claims(pod.metadata.namespace, claim_names(pod))

    def _enqueue_claims(self, namespace: str, names: Iterable[str]) -> None:
        for name in names:
            self._enqueue(f"{CLAIM}{namespace}/{name}")

    def claim_changed(self, claim: ResourceClaim) -> None:
        """Enqueue a claim, and its pods and its group if they need a sync."""
        self._enqueue(CLAIM + key_of(claim))
        for pod in self._pods.by_index(PODS_BY_CLAIM, key_of(claim)):
            self.pod_changed(pod)
        self._enqueue_group(claim)

    def _claim_updated(self, old: ResourceClaim, new: ResourceClaim) -> None:
        if old.metadata.resource_version != new.metadata.resource_version:
            self.claim_changed(new)

    def _enqueue_group(self, claim: ResourceClaim) -> None:
        """Enqueue the group that a claim was created for, and the pods of the group."""
        namespace = claim.metadata.namespace
        for each in claim.metadata.owner_references or ():
            group = self._groups.find(namespace, each.name)
            if group is not None and group.metadata.uid == each.uid:
                self.group_changed(group)
                self._enqueue_pods(group)

    def _template_added(self, template: ResourceClaimTemplate) -> None:
        for pod in self._pods.by_index(PODS_BY_TEMPLATE, key_of(template)):
            self.pod_changed(pod)
        for group in self._groups.using(template):
            self.group_changed(group)

    def _group_added(self, group: PodGroup) -> None:
        self.group_changed(group)
        self._enqueue_pods(group)

    def group_changed(self, group: PodGroup) -> None:
        """Enqueue a group that needs a sync."""
        if self._groups.needs_sync(group):
            self._enqueue(GROUP + key_of(group))

    def _group_updated(self, old: PodGroup, new: PodGroup) -> None:
        if old.metadata.uid != new.metadata.uid:
            self._group_deleted(old)
        self.group_changed(new)
        if old.metadata.uid != new.metadata.uid or old.status != new.status:
            self._enqueue_pods(new)

    def _group_deleted(self, group: PodGroup) -> None:
        self._creator.forget(group.metadata.uid)
        self._enqueue(GROUP + key_of(group))
        self._enqueue_claims(group.metadata.namespace, of_group(group).names())

    def _enqueue_pods(self, group: PodGroup) -> None:
        for pod in self._pods.by_index(PODS_BY_GROUP, key_of(group)):
            self.pod_changed(pod)


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
