"""Handlers and sync of whatever keeps a number of pods (owner.go).

Upstream serves replication controllers with the replica set controller, too, by
way of adapters that convert each object; here both are served as they are.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from controller_manager.api.apps.v1 import ReplicaSet
from controller_manager.api.core.v1 import PODS, Pod, ReplicationController
from controller_manager.api.meta import is_deleting, key_of, labels_of
from controller_manager.api.owners import controller_of, controller_reference
from controller_manager.api.pods import is_active, is_terminating
from controller_manager.api.resource import Resource
from controller_manager.api.selectors import (
    Selector,
    SelectorError,
    compile_selector,
    format_selector,
)
from controller_manager.api.workloads import desired_replicas, selector_of
from controller_manager.client.client import ListOptions
from controller_manager.client.errors import (
    APIError,
    Conflict,
    NotFound,
    TransportError,
    is_about,
    is_namespace_terminating,
    may_be_applied,
)
from controller_manager.client.events import WARNING
from controller_manager.control.candidates import (
    index_orphans,
    index_selectors,
    manager_in,
    orphans_matching,
    owners_selecting,
)
from controller_manager.control.claims import Claimer
from controller_manager.control.consistency import ConsistencyStore, requeue_for
from controller_manager.control.expectations import Expectations, State
from controller_manager.control.pod_control import PodControl, pod_from_template
from controller_manager.control.replicas.plan import (
    Create,
    Delete,
    plan_replicas,
)
from controller_manager.control.replicas.ranking import (
    age_ratios,
    choose_pods_to_delete,
)
from controller_manager.control.replicas.status import (
    OwnerStatus,
    calculate_status,
    differs_in_substance,
    next_availability_check,
)
from controller_manager.control.slow_start import slow_start
from controller_manager.control.takeover import Takeover
from controller_manager.informers.informer import Handler, SharedInformer
from controller_manager.informers.store import (
    CONTROLLER_UID_INDEX,
    controller_uid_index,
)
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Done, Outcome, Requeue

_UNSEEN_RECHECK: Final = 5.0
"""Seconds after which it is looked for what was done and has not been seen."""


OwnerT = TypeVar("OwnerT", ReplicaSet, ReplicationController)


@dataclass(frozen=True, slots=True)
class Kind(Generic[OwnerT]):
    """What is special about one kind of owners.

    `noun` is what messages call one of them. With `counts_terminating` their
    status says how many pods are on their way out. With `heeds_costs` the
    annotation pod-deletion-cost counts. With `reads_own_writes` an owner is not
    synced before the caches show what its last sync has written.
    """

    resource: Resource[OwnerT]
    queue: str
    noun: str
    counts_terminating: bool
    heeds_costs: bool
    reads_own_writes: bool


class ReplicasController(Generic[OwnerT]):
    """Creates and deletes pods until each owner has as many as it wants."""

    def __init__(self, context: ControllerContext, kind: Kind[OwnerT]) -> None:
        """Take the context and watch owners of a kind, and pods."""
        self._kind: Kind[OwnerT] = kind
        self._resource: Resource[OwnerT] = kind.resource
        self.queue = context.queue(kind.queue)
        self._client = context.client
        self._clock = context.clock
        self._logger = context.logger
        self._recorder = context.recorder
        self._metrics = context.metrics.replica_sets
        self._owners: SharedInformer[OwnerT] = context.informers.informer(kind.resource)
        self._pods = context.informers.informer(PODS)
        self._expectations = Expectations(context.clock)
        self._written = ConsistencyStore()
        self._gone: dict[str, str] = {}
        """uids of cached owners that are gone, as the API server has said, and in
        which version they are cached."""
        self._takeover = Takeover(
            context.server_clock,
            elected=context.config.generic.leader_election.leader_elect,
        )
        self._pod_control = PodControl(context.client, context.recorder, kind.resource)
        self._owners.store.add_index(CONTROLLER_UID_INDEX, controller_uid_index)
        self._pods.store.add_index(CONTROLLER_UID_INDEX, controller_uid_index)
        index_selectors(self._owners.store)
        index_orphans(self._pods.store)
        self._owners.add_handler(
            Handler(
                on_add=self._enqueue,
                on_update=lambda _, new: self._enqueue(new),
                on_delete=self._owner_deleted,
            )
        )
        self._pods.add_handler(
            Handler(
                on_add=self._pod_added,
                on_update=self._pod_updated,
                on_delete=self._pod_deleted,
            )
        )

    def begin(self) -> Iterator[None]:
        """Begin to act: look at every owner once."""
        self._takeover.begin()
        for owner in self._owners.store:
            self._enqueue(owner)
            yield

    # From changes to keys.

    def _enqueue(self, owner: OwnerT) -> None:
        self.queue.add(key_of(owner))

    def _owner_deleted(self, owner: OwnerT) -> None:
        # A namesake must not inherit what was expected of this one.
        self._expectations.forget(key_of(owner))
        self._takeover.forget(key_of(owner))
        self._gone.pop(owner.metadata.uid, None)
        self._enqueue(owner)

    def _manager_of(self, pod: Pod) -> OwnerT | None:
        return manager_in(self._owners.store, self._resource.kind, pod)

    def _pod_added(self, pod: Pod) -> None:
        if is_deleting(pod):
            # After a restart a pod may show up already on its way out.
            self._pod_deleted(pod)
        elif controller_of(pod) is None:
            self._orphan_changed(pod)
        elif (owner := self._manager_of(pod)) is not None:
            self._expectations.creations_settled(key_of(owner))
            self._enqueue(owner)

    def _orphan_changed(self, pod: Pod) -> None:
        for owner in owners_selecting(self._owners.store, pod):
            self._enqueue(owner)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        relabelled = old.metadata.labels != new.metadata.labels
        if is_deleting(new):
            # Terminating pods do not count, so replacements need not wait.
            self._pod_deleted(new)
            if relabelled:
                self._pod_deleted(old)
            return
        handed_over = controller_of(old) != controller_of(new)
        if handed_over and (former := self._manager_of(old)) is not None:
            self._enqueue(former)
        if controller_of(new) is None:
            if relabelled or handed_over:
                self._orphan_changed(new)
        elif (owner := self._manager_of(new)) is not None:
            self._enqueue(owner)

    def _pod_deleted(self, pod: Pod) -> None:
        if (owner := self._manager_of(pod)) is not None:
            key = key_of(owner)
            self._expectations.deletion_settled(key, pod.metadata.uid)
            self._enqueue(owner)

    # From a key to writes.

    async def sync(self, key: str) -> Outcome:
        """Bring the owner of `key` to its size and report on it."""
        owner = self._owners.store.get(key)
        if owner is None:
            # It may have gone in the middle of a sync that has noted something.
            self._expectations.forget(key)
            self._takeover.forget(key)
            self._written.forget(key)
            return DONE
        metadata = owner.metadata
        if self._gone.get(metadata.uid) == metadata.resource_version:
            return DONE
        if (put_off := self._wait_for_caches(key)) is not None:
            return put_off
        selector = self._usable_selector(owner)
        if selector is None:
            return DONE
        expected = self._expectations.state(key)
        if expected is State.DOUBTFUL:
            return await self._look_at_server(key, owner, selector)
        owned = self._pods.store.by_index(CONTROLLER_UID_INDEX, owner.metadata.uid)
        active = await self._claim(key, owner, selector, owned)
        failure: Exception | None = None
        acted = False
        if expected is State.FULFILLED and not is_deleting(owner):
            if self._is_doubtful(owner, active):
                return await self._look_at_server(key, owner, selector)
            acted, failure = await self._manage(key, owner, active)
        terminating = [
            pod
            for pod in owned
            if is_terminating(pod) and selector.matches(labels_of(pod))
        ]
        now = self._clock.now()
        status = calculate_status(
            owner,
            active,
            terminating if self._kind.counts_terminating else None,
            failure,
            now,
        )
        await self._report(key, owner, status, acted=acted and failure is None)
        if failure is not None:
            raise failure
        min_ready_seconds = owner.spec.min_ready_seconds
        available_in = next_availability_check(active, min_ready_seconds, now)
        return Done(self._next_look(key, available_in))

    def _wait_for_caches(self, key: str) -> Requeue | None:
        """Return the outcome of waiting, `None` if the caches are new enough.

        Where own writes are not read (StaleControllerConsistencyReplicaSet=false),
        only what was looked up on the server must be shown. That says nothing of
        the pods created since, so they are expected until they are seen.
        """
        stale = self._written.behind(key)
        if stale is None:
            if self._kind.reads_own_writes:
                self._expectations.cache_caught_up(key)
            return None
        if self._kind.reads_own_writes:
            self._metrics.skipped(stale.resource.group, stale.resource.plural)
        return requeue_for(stale)

    def _next_look(self, key: str, available_in: float | None) -> float | None:
        """Return the seconds after which to look again, whatever happens.

        What was just done may never be seen: a pod can come and go while the
        watch is broken. It must be looked for, not waited for.
        """
        if self._expectations.state(key) is State.FULFILLED:
            return available_in
        if available_in is None:
            return _UNSEEN_RECHECK
        return min(_UNSEEN_RECHECK, available_in)

    def _usable_selector(self, owner: OwnerT) -> Selector | None:
        """Return the selector; warn, and return `None`, if it selects no pods."""
        try:
            selector = compile_selector(selector_of(owner))
        except SelectorError as error:
            problem = str(error)
        else:
            template_labels = owner.spec.template.metadata.labels or {}
            if selector.is_empty or selector.nothing:
                problem = "a non-empty selector is required"
            elif not selector.matches(template_labels):
                problem = "the selector does not match the labels of the pod template"
            else:
                return selector
        self._recorder.event(
            self._resource,
            owner,
            WARNING,
            "InvalidSelector",
            f"This {self._kind.noun} cannot be processed: {problem}",
        )
        return None

    def _is_doubtful(self, owner: OwnerT, active: Sequence[Pod]) -> bool:
        """Tell whether there is something to do that a former leader may have done."""
        wanted = desired_replicas(owner)
        return len(active) != wanted and self._takeover.is_doubtful(owner)

    async def _look_at_server(
        self, key: str, owner: OwnerT, selector: Selector
    ) -> Outcome:
        """Find the versions that the caches must reach before acting again.

        A write got no answer, was not seen for five minutes, or may have been
        made by the leader before this one. A quorum read
        tells which pods there are; whatever that write did is among them, and
        their versions, unlike the list's own, are sure to come by the watch.
        """
        namespace, name = owner.metadata.namespace, owner.metadata.name
        now_stored = await self._client.get(self._resource, namespace, name)
        version = now_stored.metadata.resource_version
        self._written.wrote(key, self._owners, version)
        options = ListOptions(label_selector=format_selector(selector_of(owner)))
        async for page in self._client.list_all(PODS, namespace, options):
            for pod in page.items:
                if selector.matches(labels_of(pod)):
                    version = pod.metadata.resource_version
                    self._written.wrote(key, self._pods, version)
        self._expectations.forget(key)
        self._takeover.looked_at(key)
        self._logger.v(2).info("The cache was in doubt, looked at the server")
        return Requeue(0.0, "the cache was in doubt")

    async def _claim(
        self,
        key: str,
        owner: OwnerT,
        selector: Selector,
        owned: Sequence[Pod],
    ) -> list[Pod]:
        orphans: list[Pod] = orphans_matching(
            self._pods.store, owner.metadata.namespace, selector
        )
        claimer = Claimer(
            self._client, self._resource, PODS, lambda pod: self._wrote_pod(key, pod)
        )
        active = [pod for pod in (*owned, *orphans) if is_active(pod)]
        return await claimer.claim(owner, selector, active)

    def _wrote_pod(self, key: str, pod: Pod) -> None:
        if self._kind.reads_own_writes:
            self._written.wrote(key, self._pods, pod.metadata.resource_version)

    async def _manage(
        self, key: str, owner: OwnerT, active: Sequence[Pod]
    ) -> tuple[bool, Exception | None]:
        """Create or delete; tell whether that was tried and how it failed."""
        match plan_replicas(active, desired_replicas(owner)):
            case Create(count=count):
                return True, await self._create(key, owner, count)
            case Delete(count=count):
                return True, await self._delete(key, owner, active, count)
        return False, None

    async def _create(self, key: str, owner: OwnerT, count: int) -> Exception | None:
        self._logger.v(2).info("Too few replicas", creating=count)
        reference = controller_reference(
            owner, self._resource.api_version, self._resource.kind
        )
        body = pod_from_template(owner.spec.template, owner, reference)

        async def create_one() -> None:
            try:
                pod = await self._pod_control.create(owner, body)
            except Exception as error:
                if may_be_applied(error):
                    self._expectations.doubt(key)
                else:
                    self._expectations.creations_settled(key)
                raise
            self._wrote_pod(key, pod)

        self._expectations.expect_creations(key, count)
        started, failure = await slow_start(count, create_one)
        # What was never tried will never be seen.
        self._expectations.creations_settled(key, count - started)
        if failure is not None and is_namespace_terminating(failure):
            return None  # nothing can be created there, and nothing is wrong
        return failure

    async def _delete(
        self, key: str, owner: OwnerT, active: Sequence[Pod], count: int
    ) -> Exception | None:
        now = self._clock.now()
        related = self._related_pods(owner)
        chosen = choose_pods_to_delete(
            active, related, count, now, heed_costs=self._kind.heeds_costs
        )
        for ratio in age_ratios(active, chosen, now):
            self._metrics.age_ratio.observe(ratio)
        self._logger.v(2).info("Too many replicas", deleting=count)

        async def delete_one(pod: Pod) -> None:
            try:
                await self._pod_control.delete(owner, pod)
            except NotFound:
                self._expectations.deletion_settled(key, pod.metadata.uid)
            except (APIError, TransportError):
                # Deleting the same pod twice does no harm: no doubt needed.
                self._expectations.deletion_settled(key, pod.metadata.uid)
                raise

        self._expectations.expect_deletions(key, {pod.metadata.uid for pod in chosen})
        results = await asyncio.gather(
            *(delete_one(pod) for pod in chosen), return_exceptions=True
        )
        for result in results:
            if isinstance(result, Exception):
                return result
        return None

    def _related_pods(self, owner: OwnerT) -> list[Pod]:
        """Return the pods of all owners that have the same owner themselves."""
        reference = controller_of(owner)
        if reference is None:
            return []
        siblings = self._owners.store.by_index(CONTROLLER_UID_INDEX, reference.uid)
        return [
            pod
            for sibling in siblings
            for pod in self._pods.store.by_index(
                CONTROLLER_UID_INDEX, sibling.metadata.uid
            )
        ]

    async def _report(
        self,
        key: str,
        owner: OwnerT,
        status: OwnerStatus,
        *,
        acted: bool,
    ) -> None:
        """Write the status if it says something new.

        Right after pods were created or deleted the status is out of date as
        soon as it is written; the sync that sees them follows. So then only
        what is wrong already is written, one write less for each scaling.
        """
        old = owner.status
        if acted and not differs_in_substance(old, status):
            return
        if msgspec.structs.replace(old, conditions=old.conditions or None) == status:
            return
        reported = msgspec.structs.replace(owner, status=status)
        try:
            stored = await self._client.update(self._resource, reported, "status")
        except NotFound as error:
            if not is_about(error, owner.metadata.name):
                raise
            self._note_gone(key, owner)
            return
        except Conflict:
            await self._note_lag(key, owner)
            raise
        if self._kind.reads_own_writes:
            self._written.wrote(key, self._owners, stored.metadata.resource_version)

    def _note_gone(self, key: str, owner: OwnerT) -> None:
        """Do nothing more for an owner that is gone, though the cache has it still.

        It would be given pods for as long as the cache lags, which the garbage
        collector deletes as fast as they come.
        """
        cached = self._owners.store.get(key)
        if cached is not None and cached.metadata.uid == owner.metadata.uid:
            self._gone[owner.metadata.uid] = cached.metadata.resource_version

    async def _note_lag(self, key: str, owner: OwnerT) -> None:
        """Wait for the cache, which is older than what is stored."""
        metadata = owner.metadata
        try:
            now = await self._client.get(
                self._resource, metadata.namespace, metadata.name
            )
        except NotFound as error:
            if is_about(error, metadata.name):
                self._note_gone(key, owner)
            return
        if now.metadata.uid != metadata.uid:
            self._note_gone(key, owner)
        self._written.wrote(key, self._owners, now.metadata.resource_version)
