"""Handlers and sync of whatever keeps a number of pods (owner.go).

Upstream serves replication controllers with the replica set controller, too, by
way of adapters that convert each object; here both are served as they are.
"""

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar

import msgspec

from controller_manager.api.apps.v1 import ReplicaSet
from controller_manager.api.core.v1 import PODS, Pod, ReplicationController
from controller_manager.api.meta import is_deleting, key_of, labels_of
from controller_manager.api.owners import controller_of, controller_reference
from controller_manager.api.pods import is_active, is_terminating
from controller_manager.api.resource import AnyResource
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
from controller_manager.control.claims import Claimer
from controller_manager.control.expectations import Expectations, State
from controller_manager.control.pod_control import PodControl, pod_from_template
from controller_manager.control.replicas.metrics import ReplicaSetMetrics
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
from controller_manager.informers.indexes import BY_CONTROLLER
from controller_manager.informers.lister import Lister
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Done, Outcome, Requeue
from controller_manager.runtime.reconciler import Reconciler

_UNSEEN_RECHECK: Final = 5.0
"""Seconds after which it is looked for what was done and has not been seen."""


OwnerT = TypeVar("OwnerT", ReplicaSet, ReplicationController)


class ReplicasReconciler(Reconciler[OwnerT]):
    """Creates and deletes pods until each owner has as many as it wants.

    A subclass names the kind of the owners in `watches` and sets the attributes
    below.
    """

    noun: ClassVar[str]
    """What messages call one of the owners."""

    counts_terminating = False
    """Whether statuses say how many pods are on their way out."""

    heeds_costs = True
    """Whether the annotation pod-deletion-cost counts."""

    reads_own_writes = True
    """Whether an owner waits until the caches show what its last sync has written."""

    def __init__(self, context: ControllerContext) -> None:
        """Take the context."""
        super().__init__(context)
        self._resource = self.resource
        self._owners = context.lister(self._resource, BY_CONTROLLER)
        self._pods: Lister[Pod] = self.lister(PODS)
        self._consistency = context.consistency
        self._metrics = context.metrics.of(ReplicaSetMetrics)
        self._expectations = Expectations(context.clock)
        self._gone: dict[str, str] = {}
        """uids of cached owners that are gone, as the API server has said, and in
        which version they are cached."""
        self._takeover = Takeover(
            context.server_clock,
            elected=context.config.generic.leader_election.leader_elect,
        )
        self._pod_control = PodControl(context.client, context.recorder, self._resource)

    # From changes to what is remembered.

    def starting(self) -> None:
        """Note when this process began to lead."""
        self._takeover.leads()
        self._consistency.notes_writes = self.reads_own_writes

    def deleted(self, obj: OwnerT) -> None:
        """Forget it: a namesake must not inherit what was expected of this one."""
        self.forget(key_of(obj))
        self._gone.pop(obj.metadata.uid, None)

    def forget(self, key: str) -> None:
        """Expect nothing any more."""
        self._expectations.forget(key)
        self._takeover.forget(key)

    def dependent_added(self, key: str, obj: Pod) -> None:  # noqa: ARG002 - any pod
        """Expect one pod less."""
        self._expectations.creations_settled(key)

    def dependent_gone(self, key: str, obj: Pod) -> None:
        """Expect the deletion of this pod no longer."""
        self._expectations.deletion_settled(key, obj.metadata.uid)

    def stale(self, resource: AnyResource) -> None:
        """Count a sync that waits, if that is upstream's gate at work."""
        if self.reads_own_writes:
            self._metrics.skipped(resource.group, resource.plural)

    # From an owner to writes.

    async def reconcile(self, owner: OwnerT) -> Outcome:
        """Bring the owner to its size and report on it."""
        key = key_of(owner)
        metadata = owner.metadata
        if self._gone.get(metadata.uid) == metadata.resource_version:
            return DONE
        if self.reads_own_writes:
            self._expectations.cache_caught_up(key)
        selector = self._usable_selector(owner)
        if selector is None:
            return DONE
        expected = self._expectations.state(key)
        if expected is State.DOUBTFUL:
            return await self._look_at_server(key, owner, selector)
        owned = self._pods.controlled_by(owner)
        active = await self._claim(owner, selector, owned)
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
        now = self.clock.now()
        status = calculate_status(
            owner,
            active,
            terminating if self.counts_terminating else None,
            failure,
            now,
        )
        await self._report(key, owner, status, acted=acted and failure is None)
        if failure is not None:
            raise failure
        min_ready_seconds = owner.spec.min_ready_seconds
        available_in = next_availability_check(active, min_ready_seconds, now)
        return Done(self._next_look(key, available_in))

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
        self.recorder.event(
            self._resource,
            owner,
            WARNING,
            "InvalidSelector",
            f"This {self.noun} cannot be processed: {problem}",
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
        now_stored = await self.client.get(self._resource, namespace, name)
        self._consistency.note(key, self._resource, now_stored)
        options = ListOptions(label_selector=format_selector(selector_of(owner)))
        async for page in self.client.list_all(PODS, namespace, options):
            for pod in page.items:
                if selector.matches(labels_of(pod)):
                    self._consistency.note(key, PODS, pod)
        self._expectations.forget(key)
        self._takeover.looked_at(key)
        self.logger.v(2).info("The cache was in doubt, looked at the server")
        return Requeue(0.0, "the cache was in doubt")

    async def _claim(
        self,
        owner: OwnerT,
        selector: Selector,
        owned: Sequence[Pod],
    ) -> list[Pod]:
        orphans: Sequence[Pod] = self._pods.orphans(owner.metadata.namespace, selector)
        claimer = Claimer(self.client, self._resource, PODS)
        active = [pod for pod in (*owned, *orphans) if is_active(pod)]
        return await claimer.claim(owner, selector, active)

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
        self.logger.v(2).info("Too few replicas", creating=count)
        reference = controller_reference(
            owner, self._resource.api_version, self._resource.kind
        )
        body = pod_from_template(owner.spec.template, owner, reference)

        async def create_one() -> None:
            try:
                await self._pod_control.create(owner, body)
            except Exception as error:
                if may_be_applied(error):
                    self._expectations.doubt(key)
                else:
                    self._expectations.creations_settled(key)
                raise

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
        now = self.clock.now()
        related = self._related_pods(owner)
        chosen = choose_pods_to_delete(
            active, related, count, now, heed_costs=self.heeds_costs
        )
        for ratio in age_ratios(active, chosen, now):
            self._metrics.age_ratio.observe(ratio)
        self.logger.v(2).info("Too many replicas", deleting=count)

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
        return [
            pod
            for sibling in self._owners.controlled_by_uid(reference.uid)
            for pod in self._pods.controlled_by(sibling)
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
            await self.client.update(self._resource, reported, "status")
        except NotFound as error:
            if not is_about(error, owner.metadata.name):
                raise
            self._note_gone(key, owner)
            return
        except Conflict:
            await self._note_lag(key, owner)
            raise

    def _note_gone(self, key: str, owner: OwnerT) -> None:
        """Do nothing more for an owner that is gone, though the cache has it still.

        It would be given pods for as long as the cache lags, which the garbage
        collector deletes as fast as they come.
        """
        cached = self._owners.by_key(key)
        if cached is not None and cached.metadata.uid == owner.metadata.uid:
            self._gone[owner.metadata.uid] = cached.metadata.resource_version

    async def _note_lag(self, key: str, owner: OwnerT) -> None:
        """Wait for the cache, which is older than what is stored."""
        metadata = owner.metadata
        try:
            now = await self.client.get(
                self._resource, metadata.namespace, metadata.name
            )
        except NotFound as error:
            if is_about(error, metadata.name):
                self._note_gone(key, owner)
            return
        if now.metadata.uid != metadata.uid:
            self._note_gone(key, owner)
        self._consistency.note(key, self._resource, now)
