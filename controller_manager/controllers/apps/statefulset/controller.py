"""The stateful set controller: its watches, and the sync of one set.

Upstream: stateful_set.go and stateful_set_control.go of pkg/controller/statefulset.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec import Raw
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Gauge

from controller_manager.api import meta
from controller_manager.api.apps import v1
from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.pods import is_terminal
from controller_manager.api.selectors import Selector, SelectorError, compile_selector
from controller_manager.client.rest.errors import is_namespace_terminating
from controller_manager.control import controller_history
from controller_manager.control.controller_ref_manager import Claimer
from controller_manager.control.expectations import OwnerReads, StaleSyncs
from controller_manager.control.pod_control import slow_start
from controller_manager.informers.store import Index
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import (
    DONE,
    Done,
    Failed,
    Outcome,
    Requeue,
    failure_of,
)
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps, Owns

from . import (
    MAX_UNAVAILABLE,
    READS_OWN_WRITES,
    SEMANTIC_REVISION_COMPARISON,
    StatefulSetOptions,
    identity,
)
from .failures import FailedPods, StartFailures
from .ordering import Plan, PodWork, plan_sync, seconds_until_change
from .pod_control import StatefulPodControl, UnseenDeletions
from .replicas import FoundPods, Replicas, Revisions, Settings, is_same
from .rolling_update import allowed_unavailable, unavailable

_ItemT = TypeVar("_ItemT")
_LABELS: Final = ("statefulset_namespace", "statefulset_name", "pod_management_policy")


class StatefulSetMetrics:
    """The ``statefulset_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        watched = v1.STATEFUL_SETS, v1.CONTROLLER_REVISIONS, PODS, CLAIMS
        self.stale_syncs = StaleSyncs(registry, "statefulset_controller", *watched)
        self._max_unavailable = Gauge(
            "statefulset_controller_statefulset_max_unavailable",
            "Maximum number of unavailable pods during a rolling update",
            _LABELS,
            registry=registry,
        )
        self._unavailable = Gauge(
            "statefulset_controller_statefulset_unavailable_replicas",
            "Number of wanted pods that are missing or unavailable",
            _LABELS,
            registry=registry,
        )
        self._policies: dict[tuple[str, str], str] = {}
        """The pod management policies of the sets that the gauges show."""

    def availability(
        self, namespace: str, name: str, policy: str, allowed: int, unavailable: int
    ) -> None:
        """Show the numbers of pods of a set that may be and that are unavailable."""
        if self._policies.get((namespace, name), policy) != policy:
            self.forget(namespace, name)
        self._policies[namespace, name] = policy
        self._max_unavailable.labels(namespace, name, policy).set(allowed)
        self._unavailable.labels(namespace, name, policy).set(unavailable)

    def forget(self, namespace: str, name: str) -> None:
        """Remove the values of a set that is gone."""
        policy = self._policies.pop((namespace, name), None)
        if policy is not None:
            self._max_unavailable.remove(namespace, name, policy)
            self._unavailable.remove(namespace, name, policy)


_UNSEEN_RECHECK: Final = 1.0
"""Seconds until the next sync while the cache does not show all deletions."""

_LOST_CLAIM_DELAY: Final = 5.0
"""Seconds until the deleted claim of a pending pod is created anew.

Upstream creates it at the next event of the pod. With the delay, a user who deletes a
claim sees that it is gone.
"""

PODS_BY_CLAIM: Final = Index(
    "claimPrefix",
    identity.claim_prefixes,
    lambda old, new: old.spec.volume_claim_templates == new.spec.volume_claim_templates,
)
"""Stateful sets by the names of their claims without ordinals."""


class StatefulSetReconciler(Reconciler[v1.StatefulSet]):
    """Keeps a pod with its claims for each ordinal that a set wants."""

    queue_name = "statefulset"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        options = context.config.of(StatefulSetOptions)
        gates = context.config.features
        self.workers = options.concurrent_syncs
        self.reads_own_writes = gates.is_enabled(READS_OWN_WRITES)
        self._settings = Settings(
            options.replaces_stuck_pods, gates.is_enabled(MAX_UNAVAILABLE)
        )
        self._adds_defaults = gates.is_enabled(SEMANTIC_REVISION_COMPARISON)
        self._metrics = context.metrics.of(StatefulSetMetrics)
        self._pods = self.lister(PODS)
        self._claims = self.lister(CLAIMS)
        self._by_claim = context.lister(v1.STATEFUL_SETS, PODS_BY_CLAIM)
        self._history = controller_history.History(self)
        self._pod_claimer = Claimer(context.client, v1.STATEFUL_SETS, PODS)
        self._deletions = UnseenDeletions(self._pods.get)
        self._start_failures = StartFailures(context.clock)
        self._failed_pods = FailedPods(context.clock, context.server_clock)
        self._reads = OwnerReads(
            context.client, v1.STATEFUL_SETS, self.objects, context.consistency
        )

    # Watches, and the state that they keep.

    def _wants_claim(self, claim: PersistentVolumeClaim) -> Iterable[str]:
        # A set can create a pod after a claim is gone. If the pod exists, the claim is
        # created anew a little later.
        for key, has_pod in self._sets_of(claim):
            if has_pod:
                self.queue.add_after(key, _LOST_CLAIM_DELAY)
            else:
                yield key

    def _wants_free_claim(self, claim: PersistentVolumeClaim) -> Iterable[str]:
        # A set may wait until a claim loses an owner. The garbage collector only
        # removes an owner reference if the claim has another.
        if claim.metadata.owner_references:
            yield from (key for key, has_pod in self._sets_of(claim) if not has_pod)

    def _sets_of(self, claim: PersistentVolumeClaim) -> Iterable[tuple[str, bool]]:
        """Yield the keys of the sets of a claim, and whether they have its pod."""
        found = identity.parent_and_ordinal(claim.metadata.name)
        if found is None:
            return
        namespace, (prefix, ordinal) = claim.metadata.namespace, found
        for each in self._by_claim.by_index(PODS_BY_CLAIM, f"{namespace}/{prefix}"):
            pod = self._pods.get(namespace, identity.pod_name(each, ordinal))
            yield meta.key_of(each), pod is not None

    def _wants_name(self, pod: Pod) -> Iterable[str]:
        found = identity.parent_and_ordinal(pod.metadata.name)
        if found is None:
            return ()
        stateful_set = self.objects.get(pod.metadata.namespace, found[0])
        if stateful_set is None or meta.is_controlled_by(pod, stateful_set):
            return ()
        return (meta.key_of(stateful_set),)

    watches = (
        For(v1.STATEFUL_SETS),
        Owns(PODS),
        Owns(v1.CONTROLLER_REVISIONS),
        Maps(PODS, _wants_name, on=("delete",)),
        Maps(CLAIMS, _wants_claim, on=("delete",)),
        Maps(CLAIMS, _wants_free_claim, on=("update",)),
    )

    def deleted(self, obj: v1.StatefulSet) -> None:
        """Drop the state of a set, so that a new one of its name starts afresh."""
        self.forget(meta.key_of(obj))
        self._reads.forget(obj)

    def forget(self, key: str) -> None:
        """Drop the state of a key whose set is gone."""
        self._deletions.forget(key)
        self._start_failures.forget(key)
        self._failed_pods.forget(key)
        self._history.forget(key)
        self._metrics.forget(*meta.split_key(key))

    def dependent_gone(self, key: str, obj: Pod | v1.ControllerRevision) -> None:
        """Note that a pod is gone: it may have failed before."""
        if isinstance(obj, Pod):
            self._failed_pods.gone(key, obj)

    def is_known_gone(self, obj: v1.StatefulSet) -> bool:
        """Tell whether a response of the API server showed that this set is gone."""
        return self._reads.is_known_gone(obj)

    def stale(self, resource: meta.AnyResource) -> None:
        """Count a sync that waits for a cache."""
        self._metrics.stale_syncs.count(resource)

    # The sync.

    async def reconcile(self, stateful_set: v1.StatefulSet) -> Outcome:
        """Bring pods, claims, revisions and status closer to the spec (sync)."""
        if self._deletions.are_unseen(meta.key_of(stateful_set)):
            return Requeue(_UNSEEN_RECHECK, "the cache does not show all deletions")
        try:
            selector = compile_selector(stateful_set.spec.selector)
        except SelectorError as error:
            self.logger.error("The selector of the set cannot be used", err=str(error))
            return DONE
        stored: list[v1.ControllerRevision] = []
        if not meta.is_deleting(stateful_set):
            stored = await self._history.claim(stateful_set, selector)
        candidates = self._pods.candidates(stateful_set, selector)
        found = FoundPods.among(candidates, stateful_set, selector)
        pods = await self._claim_pods(stateful_set, selector, found)
        if meta.is_deleting(stateful_set):
            revisions = Revisions.recorded(stateful_set)
        else:
            revisions = await self._sync_revisions(stateful_set, stored)
        foreign = self._foreign_pods(stateful_set, found, pods)
        if foreign is None:
            return Requeue(0.0, "the cache shows another pod of the set now")
        replicas = Replicas(
            stateful_set=stateful_set,
            pods=pods,
            revisions=revisions,
            claims=self._claims_of(stateful_set, pods),
            foreign=foreign,
            failing_since=self._start_failures.observe(meta.key_of(stateful_set), pods),
            held=self._failed_pods.observe(stateful_set, pods),
            settings=self._settings,
        )
        self._show_availability(replicas)
        return await self._update(replicas)

    async def _claim_pods(
        self, stateful_set: v1.StatefulSet, selector: Selector, found: FoundPods
    ) -> tuple[Pod, ...]:
        """Return the set's pods; adopt and release others."""
        claimed = await self._pod_claimer.claim(stateful_set, selector, found.named)
        if not meta.is_deleting(stateful_set):
            for pod in found.misnamed:
                await self._pod_claimer.release(stateful_set, pod)
        return tuple(claimed)

    async def _sync_revisions(
        self, stateful_set: v1.StatefulSet, stored: Sequence[v1.ControllerRevision]
    ) -> Revisions:
        """Create or renumber the template's revision (getStatefulSetRevisions)."""
        data = controller_history.template_data(stateful_set.spec.template)
        collisions = stateful_set.status.collision_count or 0
        found = self._find_update_revision(stored, data)
        if found is None:
            hash_text = controller_history.data_hash(data, collisions)
            template_labels = stateful_set.spec.template.metadata.labels or {}
            labels = {**template_labels, controller_history.HASH_LABEL: hash_text}
            new = self._history.new(
                stateful_set,
                data,
                controller_history.next_number(stored),
                hash_text,
                labels,
            )
            update, collisions = await self._history.create_renamed(
                new, stateful_set, collisions
            )
        else:
            self._history.has_current(stateful_set)
            update = found
            if update is not stored[-1]:  # its template is in use again
                update = await self._history.renumber(
                    update, controller_history.next_number(stored)
                )
        current = stateful_set.status.current_revision
        if current not in {each.metadata.name for each in stored}:
            current = update.metadata.name
        return Revisions(current, update.metadata.name, collisions, tuple(stored))

    def _find_update_revision(
        self, stored: Sequence[v1.ControllerRevision], data: Raw
    ) -> v1.ControllerRevision | None:
        # By the feature gate, the newest revision also matches a template that differs
        # from it only by defaults. Older revisions must be equal to it, as upstream.
        if stored and controller_history.find_equal(stored[-1:], data) is None:
            if self._adds_defaults and controller_history.is_equal_with_defaults(
                stored[-1].data, data
            ):
                return stored[-1]
            return controller_history.find_equal(stored[:-1], data)
        return stored[-1] if stored else None

    def _foreign_pods(
        self, stateful_set: v1.StatefulSet, found: FoundPods, pods: Sequence[Pod]
    ) -> dict[str, Pod] | None:
        # The cache may have changed since: `None` if it shows a pod of the set that was
        # not found.
        namespace = stateful_set.metadata.namespace
        own = {pod.metadata.name for pod in pods}
        foreign: dict[str, Pod] = {}
        for ordinal in identity.ordinals(stateful_set):
            name = identity.pod_name(stateful_set, ordinal)
            pod = None if name in own else self._pods.get(namespace, name)
            if pod is None:
                continue
            if found.lacks(pod):
                return None
            foreign[name] = pod
        return foreign

    def _claims_of(
        self, stateful_set: v1.StatefulSet, pods: Sequence[Pod]
    ) -> identity.Claims:
        claims: dict[str, meta.KubeObject] = {}
        if not stateful_set.spec.volume_claim_templates:
            return claims
        wanted = identity.ordinals(stateful_set)
        present = (identity.ordinal_of(stateful_set, pod) for pod in pods)
        others = (each for each in present if each is not None and each not in wanted)
        for number in (*wanted, *others):
            for name in identity.claim_names(stateful_set, number):
                claim = self._claims.get(stateful_set.metadata.namespace, name)
                if claim is not None:
                    claims[name] = claim
        return claims

    def _show_availability(self, replicas: Replicas) -> None:
        stateful_set = replicas.stateful_set
        if meta.is_deleting(stateful_set) or not self._settings.max_unavailable:
            return
        self._metrics.availability(
            stateful_set.metadata.namespace,
            stateful_set.metadata.name,
            stateful_set.spec.pod_management_policy,
            allowed_unavailable(replicas),
            unavailable(replicas, self.clock.now()),
        )

    async def _update(self, replicas: Replicas) -> Outcome:
        """Write pods and claims, then the status; then fail as the pods did."""
        plan = plan_sync(replicas, self.clock.now())
        replaced: list[Pod] = []
        failure = await self._write_pods(replicas, plan, replaced)
        now = self.clock.now()
        requeue_after = seconds_until_change(replicas, now)
        status = replicas.status(now, replaced)
        unreported = await failure_of(self._report(replicas, status), requeue_after)
        if unreported is not None:
            return unreported
        if failure is not None:
            return Failed(failure, requeue_after)
        return Done(requeue_after, plan.reasons)

    async def _write_pods(
        self, replicas: Replicas, plan: Plan, replaced: list[Pod]
    ) -> Exception | None:
        # In a namespace that is being deleted no object can be created. This ends the
        # writes, too, but is no failure.
        control = StatefulPodControl(
            self.client,
            self.recorder,
            self._deletions,
            replicas.stateful_set,
            replicas.revisions,
        )
        run_for_all = partial(_run_for_all, at_once=replicas.is_parallel)
        try:
            await run_for_all(plan.wanted, partial(_process_replica, control))
            if replicas.is_parallel:
                control.check_set_again()  # the first phase may have taken long
            await run_for_all(
                plan.corrections, lambda each: control.correct_owners(*each)
            )
            await run_for_all(plan.condemned, control.delete_pod)
            for pod in plan.replaced:
                await control.delete_pod(pod)
                replaced.append(pod)
            for name in plan.refused:
                control.refuse_name(name)
        except Exception as error:  # noqa: BLE001 - raised after the report
            return None if is_namespace_terminating(error) else error
        return None

    async def _report(self, replicas: Replicas, status: v1.StatefulSetStatus) -> None:
        stateful_set = replicas.stateful_set
        if not is_same(stateful_set.status, status):
            reported = replace(stateful_set, status=status)
            if not await self._reads.update_status(reported):
                return
        for revision in replicas.revisions_beyond_limit():
            await self._history.delete(revision)


async def _process_replica(control: StatefulPodControl, work: PodWork) -> None:
    """Make the writes for one wanted ordinal (processReplica)."""
    pod = work.slot.pod
    if pod is None:
        await control.create_pod(work)
    elif is_terminal(pod):
        await control.delete_pod(pod)
    else:
        await control.update_pod(pod, work)


async def _run_for_all(
    items: Sequence[_ItemT],
    write: Callable[[_ItemT], Awaitable[None]],
    *,
    at_once: bool,
) -> None:
    if not at_once:
        for item in items:
            await write(item)
        return
    waiting = iter(items)
    _, failure = await slow_start(len(items), lambda: write(next(waiting)))
    if failure is not None and not is_namespace_terminating(failure):
        raise failure
