"""Gives pods their claims to devices, and releases claims (controller.go)."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from controller_manager.api.core.v1 import PODS, Pod, PodResourceClaim
from controller_manager.api.dynamicresources import v1
from controller_manager.api.meta import AnyResource, controller_of, is_deleting, key_of
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS, PodGroup
from controller_manager.client.rest.errors import NotFound
from controller_manager.control.expectations import live
from controller_manager.control.recent_set import RecentSet
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.factory import ControllerInformers
from controller_manager.informers.store import Lister
from controller_manager.runtime.consistency import requeue_for
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.outcome import DONE, Done, Outcome

from . import WORKLOAD_CLAIMS, ResourceClaimOptions, consumers, reservations
from .creation import ClaimCreator
from .metrics import CLAIMS_BY_KIND, ResourceClaimMetrics

_Sync = Callable[[str], Awaitable[Outcome]]

_PATIENCE: Final = 10.0
"""Seconds after which no scheduler still allocates a claim that has the finalizer."""

_SHORTEST_WAIT: Final = 0.001


def init_resource_claim_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (newResourceClaimController)."""
    controller = ResourceClaimController(context)
    count = context.config.of(ResourceClaimOptions).concurrent_syncs
    return context.workers(
        controller.queue, controller.sync, count, controller.enqueue_all
    )


class ResourceClaimController:
    """Gives pods their claims, and removes claims from pods that are gone.

    A key is ``pod:``, ``podgroup:`` or ``claim:``, and then ``namespace/name``. It
    waits until the caches show the writes of its last sync: no claim is made twice.
    """

    def __init__(self, context: ControllerContext) -> None:
        self.queue = context.queue("resource_claim")
        self._client = context.client
        self._clock = context.clock
        self._logger = context.logger
        self._one_by_one = context.one_by_one
        self._consistency = context.consistency
        self._consistency.records_writes = True
        self._gone: RecentSet[str] = RecentSet()
        """The uids of deleted pods: their claims are released without a request."""
        self._left_over: dict[str, tuple[str, float]] = {}
        """Versions of claims with a superfluous finalizer, and when each was seen."""
        self._creator = ClaimCreator(context)
        self._reserver = reservations.Reserver(context)
        self._claims = context.lister(v1.RESOURCE_CLAIMS, CLAIMS_BY_KIND)
        context.metrics.of(ResourceClaimMetrics).count(self._claims)
        self._groups: Lister[PodGroup] | None = None
        indexes = [consumers.PODS_BY_CLAIM, consumers.PODS_BY_TEMPLATE]
        if context.config.features.is_enabled(WORKLOAD_CLAIMS):
            indexes.append(consumers.PODS_BY_GROUP)
            self._groups = context.lister(POD_GROUPS, consumers.GROUPS_BY_TEMPLATE)
        self._pods = context.lister(PODS, *indexes)
        self._syncs: Mapping[str, tuple[Lister[Any] | None, _Sync]] = {
            "pod": (self._pods, self._sync_pod),
            "podgroup": (self._groups, self._sync_group),
            "claim": (self._claims, self._sync_claim),
        }
        """The lister and the sync of each kind of keys."""
        self._watch(context.informers)

    def _watch(self, informers: ControllerInformers) -> None:
        informers.informer(PODS).add_handler(
            Handler(
                on_add=self._pod_changed,
                on_update=lambda _, new: self._pod_changed(new),
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
        informers.informer(v1.RESOURCE_CLAIMS).add_handler(
            Handler(self._claim_changed, self._claim_updated, self._claim_changed)
        )
        informers.informer(v1.RESOURCE_CLAIM_TEMPLATES).add_handler(
            Handler(self._template_added)
        )
        if self._groups is not None:
            informers.informer(POD_GROUPS).add_handler(
                Handler(self._group_added, self._group_updated, self._group_deleted)
            )

    # Changes that concern pods, groups and claims.

    def enqueue_all(self) -> Iterator[None]:
        """Enqueue all objects when this process begins to lead: it missed deletions."""
        self._creator.start_leading()
        groups = () if self._groups is None else self._groups.all()
        yield from self._one_by_one(self._pods.all(), self._pod_changed)
        yield from self._one_by_one(groups, self._group_changed)
        yield from self._one_by_one(self._claims.all(), self._claim_changed)

    def _pod_changed(self, pod: Pod) -> None:
        """Enqueue a pod that needs a sync, or the claims of a pod that is done."""
        if not consumers.uses_claims(pod):
            return
        if consumers.is_done(pod):
            self._release(pod)
        elif self._pod_needs_sync(pod):
            self.queue.add("pod:" + key_of(pod))

    def _pod_deleted(self, pod: Pod) -> None:
        if consumers.uses_claims(pod):
            self._gone.add(pod.metadata.uid)
            self._creator.forget(pod.metadata.uid)
            self._release(pod)
            self.queue.add("pod:" + key_of(pod))

    def _release(self, pod: Pod) -> None:
        self._enqueue_claims(pod.metadata.namespace, consumers.claim_names(pod))

    def _enqueue_claims(self, namespace: str, names: Iterable[str]) -> None:
        for name in names:
            self.queue.add(f"claim:{namespace}/{name}")

    def _claim_changed(self, claim: v1.ResourceClaim) -> None:
        self.queue.add("claim:" + key_of(claim))
        for pod in self._pods.by_index(consumers.PODS_BY_CLAIM, key_of(claim)):
            self._pod_changed(pod)
        self._enqueue_group(claim)

    def _claim_updated(self, old: v1.ResourceClaim, new: v1.ResourceClaim) -> None:
        if old.metadata.resource_version != new.metadata.resource_version:
            self._claim_changed(new)

    def _enqueue_group(self, claim: v1.ResourceClaim) -> None:
        namespace = claim.metadata.namespace
        for each in claim.metadata.owner_references or ():
            group = self._find_group(namespace, each.name)
            if group is not None and group.metadata.uid == each.uid:
                self._group_changed(group)
                self._enqueue_pods(group)

    def _template_added(self, template: v1.ResourceClaimTemplate) -> None:
        for pod in self._pods.by_index(consumers.PODS_BY_TEMPLATE, key_of(template)):
            self._pod_changed(pod)
        if self._groups is not None:
            index = consumers.GROUPS_BY_TEMPLATE
            for group in self._groups.by_index(index, key_of(template)):
                self._group_changed(group)

    def _group_added(self, group: PodGroup) -> None:
        self._group_changed(group)
        self._enqueue_pods(group)

    def _group_changed(self, group: PodGroup) -> None:
        if self._group_needs_sync(group):
            self.queue.add("podgroup:" + key_of(group))

    def _group_updated(self, old: PodGroup, new: PodGroup) -> None:
        if old.metadata.uid != new.metadata.uid:
            self._group_deleted(old)
        self._group_changed(new)
        if old.metadata.uid != new.metadata.uid or old.status != new.status:
            self._enqueue_pods(new)

    def _group_deleted(self, group: PodGroup) -> None:
        self._creator.forget(group.metadata.uid)
        self.queue.add("podgroup:" + key_of(group))
        names = consumers.of_group(group).names()
        self._enqueue_claims(group.metadata.namespace, names)

    def _enqueue_pods(self, group: PodGroup) -> None:
        for pod in self._pods.by_index(consumers.PODS_BY_GROUP, key_of(group)):
            self._pod_changed(pod)

    # Groups of pods; without their feature gate there are none.

    def _find_group(self, namespace: str, name: str) -> PodGroup | None:
        return None if self._groups is None else self._groups.get(namespace, name)

    def _group_of(self, pod: Pod) -> consumers.Consumer | None:
        """Return the group that a pod belongs to, `None` for none."""
        name = consumers.group_name(pod)
        group = self._find_group(pod.metadata.namespace, name) if name else None
        return None if group is None else consumers.of_group(group)

    # Syncs.

    async def sync(self, key: str) -> Outcome:
        """Sync a pod, a group of pods or a claim (syncHandler)."""
        kind, _, name = key.partition(":")
        lister, sync = self._syncs[kind]
        if lister is None or lister.by_key(name) is None:
            self._consistency.forget(key)
        if (stale := self._consistency.stale_cache(key)) is not None:
            return requeue_for(stale)
        return await sync(name)

    # Pods.

    def _pod_needs_sync(self, pod: Pod) -> bool:
        """Tell whether a pod lacks a claim or a reservation; an ended pod does not."""
        if is_deleting(pod) or consumers.is_done(pod):
            return False
        consumer = consumers.of_pod(pod)
        return any(self._lacks(pod, consumer, each) for each in consumer.wanted)

    def _lacks(
        self, pod: Pod, consumer: consumers.Consumer, entry: PodResourceClaim
    ) -> bool:
        name = consumer.name_of(entry)
        is_made = entry.resource_claim_template_name is not None
        is_shared = is_made and self._is_shared(pod, entry)
        if is_shared and self._shared_claim(pod, entry) not in (None, name):
            return True
        if not consumer.is_known(entry):
            return not is_shared
        claim = self._claims.get(consumer.namespace, name) if name else None
        if claim is None:
            return bool(name) and is_made and not is_shared
        return self._reservation(pod, entry, claim) is not None

    async def _sync_pod(self, key: str) -> Outcome:
        """Create the claims of a pod; reserve them after it has a node (syncPod).

        A pod that was bound without a scheduler needs this reservation.
        """
        pod = self._pods.by_key(key)
        if pod is None or is_deleting(pod) or not self._pod_needs_sync(pod):
            return DONE
        stored = await self._read_pod(pod) if self._must_read(pod) else pod
        if stored is not None:
            await self._give_claims(stored)
        return DONE

    def _must_read(self, pod: Pod) -> bool:
        """Tell whether to read a pod first: most need claims before having a node."""
        consumer = consumers.of_pod(pod)
        if all(map(consumer.is_known, consumer.wanted)):
            return False
        return bool(pod.spec.node_name) or self._creator.must_list(consumer)

    async def _give_claims(self, pod: Pod) -> None:
        consumer = consumers.of_pod(pod)
        names: dict[str, str | None] = {}
        for each in consumer.wanted:
            name = await self._claim_for(pod, consumer, each)
            if name is not None and name != consumer.name_of(each):
                names[each.name] = name
        if names:
            await self._creator.write_names(consumer, names)
        if pod.spec.node_name:
            await self._reserve(pod, {**consumer.status_names, **names})

    async def _read_pod(self, cached: Pod) -> Pod | None:
        """Return a pod as the API server has it, `None` if it needs no claims now.

        The cache may be old, and show another pod of its name.
        """
        metadata = cached.metadata
        pod = await live(self._client, PODS, metadata.namespace, metadata.name)
        if pod is None or pod.metadata.uid != metadata.uid:
            return None
        return None if is_deleting(pod) or consumers.is_done(pod) else pod

    async def _claim_for(
        self, pod: Pod, consumer: consumers.Consumer, entry: PodResourceClaim
    ) -> str | None:
        """Return the name of an entry's claim, `None` if it has none (yet)."""
        if entry.resource_claim_name is not None:
            return entry.resource_claim_name
        if consumer.status_names.get(entry.name, "") is None:
            return None
        if self._is_shared(pod, entry):
            return self._shared_claim(pod, entry) or consumer.name_of(entry)
        return await self._creator.make(consumer, entry)

    async def _reserve(self, pod: Pod, names: dict[str, str | None]) -> None:
        async def needs_it() -> bool:
            return await self._read_pod(pod) is not None

        for entry in pod.spec.resource_claims or ():
            name = entry.resource_claim_name or names.get(entry.name)
            claim = self._claims.get(pod.metadata.namespace, name) if name else None
            if claim is None:
                continue
            if (consumer := self._reservation(pod, entry, claim)) is not None:
                await self._reserver.reserve(claim, consumer, needs_it)

    def _reservation(
        self, pod: Pod, entry: PodResourceClaim, claim: v1.ResourceClaim
    ) -> v1.ClaimConsumer | None:
        """Return the consumer to reserve a claim for, `None` if it is another one's."""
        if not pod.spec.node_name:
            return None
        group = self._group_of(pod)
        consumer = consumers.of_pod(pod)
        uids = {consumer.uid} if group is None else {consumer.uid, group.uid}
        is_made = entry.resource_claim_template_name is not None
        if is_made and consumers.owner_uid(claim) not in uids:
            return None
        if group is not None and consumers.shares(group, entry):
            consumer = group
        fields = reservations.reserve(claim, consumer.reference)
        return None if fields is None else consumer.reference

    def _is_shared(self, pod: Pod, entry: PodResourceClaim) -> bool:
        """Tell whether a claim belongs to the pod's group, also while it is unknown."""
        if self._groups is None or not consumers.group_name(pod):
            return False
        group = self._group_of(pod)
        return group is None or consumers.shares(group, entry)

    def _shared_claim(self, pod: Pod, entry: PodResourceClaim) -> str | None:
        group = self._group_of(pod)
        return None if group is None else self._creator.claim_name_for(group, entry)

    # Groups.

    def _group_needs_sync(self, group: PodGroup) -> bool:
        consumer = consumers.of_group(group)
        return not is_deleting(group) and any(
            self._group_lacks(consumer, each) for each in consumer.wanted
        )

    def _group_lacks(
        self, consumer: consumers.Consumer, entry: PodResourceClaim
    ) -> bool:
        if entry.resource_claim_name is not None:
            return False
        made = self._creator.claim_name_for(consumer, entry)
        if not consumer.is_known(entry):
            return True
        known_name = consumer.name_of(entry)
        return known_name is not None and known_name != made

    async def _sync_group(self, key: str) -> Outcome:
        """Create the claims of a group, and write their names (syncPodGroup)."""
        group = None if self._groups is None else self._groups.by_key(key)
        if group is None or is_deleting(group):
            return DONE
        consumer = consumers.of_group(group)
        names: dict[str, str | None] = {}
        for each in consumer.wanted:
            if not self._group_lacks(consumer, each):
                continue
            name = await self._creator.make(consumer, each)
            if name != consumer.name_of(each):
                names[each.name] = name
        if names:
            await self._creator.write_names(consumer, names)
        return DONE

    # Claims.

    async def _sync_claim(self, key: str) -> Outcome:
        """Remove consumers that are gone from a claim, or delete it (syncClaim)."""
        self._reserver.forget(key)
        claim = self._claims.by_key(key)
        if claim is None or not reservations.is_left_over(claim):
            self._left_over.pop(key, None)
        if claim is None:
            return DONE
        if reservations.is_left_over(claim):
            return await self._sync_left_over(key, claim)
        reserved = reservations.reserved_for(claim)
        gone = {each.uid for each in reserved if await self._is_gone(claim, each)}
        loss = reservations.release(claim, lambda consumer: consumer.uid in gone)
        # The claim may be gone with its last finalizer.
        with suppress(NotFound):
            changed = claim
            if loss.status is not None:
                changed = await reservations.patch_claim(
                    self._client, claim, {"status": loss.status}, "status"
                )
            if loss.drops_finalizer:
                await self._drop_finalizer(changed)
            if len(gone) == len(reserved) and await self._is_superfluous(claim):
                await self._client.delete_exactly(v1.RESOURCE_CLAIMS, claim)
                self._logger.v(5).info("Deleted unused generated claim", claim=key)
        return DONE

    async def _sync_left_over(self, key: str, claim: v1.ResourceClaim) -> Outcome:
        """Remove the finalizer of a claim that a scheduler may be about to allocate."""
        now, version = self._clock.monotonic(), claim.metadata.resource_version
        known, since = self._left_over.get(key, ("", now))
        if known != version:
            self._left_over[key] = (version, now)
            return Done(_PATIENCE)
        if now - since < _PATIENCE:
            return Done(max(_PATIENCE - (now - since), _SHORTEST_WAIT))
        with suppress(NotFound):
            await self._drop_finalizer(claim)
        return DONE

    async def _drop_finalizer(self, claim: v1.ResourceClaim) -> None:
        patch = {"metadata": {"finalizers": reservations.other_finalizers(claim)}}
        await reservations.patch_claim(self._client, claim, patch)

    async def _is_gone(
        self, claim: v1.ResourceClaim, consumer: v1.ClaimConsumer
    ) -> bool:
        """Tell whether a pod or a group is gone, or needs the claim no longer."""
        kind = (consumer.api_group, consumer.resource)
        namespace, name, uid = claim.metadata.namespace, consumer.name, consumer.uid
        if kind == (POD_GROUPS.group, POD_GROUPS.plural) and self._groups is not None:
            group = self._groups.get(namespace, name)
            if group is not None and group.metadata.uid == uid:
                return False
            return not await self._is_stored(POD_GROUPS, namespace, name, uid)
        if kind != (PODS.group, PODS.plural):
            return False
        if uid in self._gone:
            return True
        pod = self._pods.get(namespace, name)
        if pod is not None and pod.metadata.uid == uid:
            return consumers.is_done(pod)
        return not await self._is_stored(PODS, namespace, name, uid)

    async def _is_stored(
        self, resource: AnyResource, namespace: str, name: str, uid: str
    ) -> bool:
        """Tell whether the API server has a consumer or owner that the cache lacks.

        It may be newer than the cache. Upstream takes the claim from such a pod.
        """
        found = await live(self._client, resource, namespace, name)
        return found is not None and bool(found.metadata.uid == uid)

    async def _is_superfluous(self, claim: v1.ResourceClaim) -> bool:
        """Tell whether a claim was created for a pod that was replaced or is done."""
        owner = controller_of(claim)
        if owner is None or is_deleting(claim):
            return False
        namespace, name = claim.metadata.namespace, owner.name
        if (owner.api_version, owner.kind) == (PODS.api_version, PODS.kind):
            pod = self._pods.get(namespace, name)
            if pod is None:
                return False
            return owner.uid in self._gone or (
                pod.metadata.uid == owner.uid and consumers.is_done(pod)
            )
        if (owner.api_version, owner.kind) == (POD_GROUPS.api_version, POD_GROUPS.kind):
            group = self._find_group(namespace, name)
            if group is None or group.metadata.uid == owner.uid:
                return False
            return not await self._is_stored(POD_GROUPS, namespace, name, owner.uid)
        return False
