"""The watches and the reconcile of the stateful set controller.

Upstream: pkg/controller/statefulset of v1.36 (stateful_set.go). `decide` makes the
decision of a sync, and `apply` carries it out.

Metrics of stateful sets, with upstream's names.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from controller_manager.api.apps.v1 import (
    CONTROLLER_REVISIONS,
    STATEFUL_SETS,
    ControllerRevision,
    StatefulSet,
)
from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import KubeObject, is_deleting, key_of, split_key
from controller_manager.api.owners import is_controlled_by
from controller_manager.api.resource import AnyResource
from controller_manager.api.selectors import Selector, SelectorError, compile_selector
from controller_manager.client.events import WARNING
from controller_manager.control.claims import Claimer
from controller_manager.control.decision import decide_and_apply
from controller_manager.control.history.revisions import History
from controller_manager.control.mutations import REVISION_MUTATED, Mutation, Mutations
from controller_manager.control.owner_reads import OwnerReads
from controller_manager.control.stale_syncs import StaleSyncs
from controller_manager.informers.indexes import Index
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, Requeue
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps, Owns

from .apply import StatefulSetApplier
from .backoff import FailedPods
from .claims import Claims, claim_names
from .decide import decide
from .expectations import UnseenDeletions
from .identity import claim_prefixes, ordinal_of, ordinals, parent_and_ordinal, pod_name
from .options import (
    MAX_UNAVAILABLE,
    READS_OWN_WRITES,
    SEMANTIC_REVISION_COMPARISON,
    StatefulSetOptions,
)
from .pods import FoundPods, find_pods
from .revisions import Revisions, recorded, sync_revisions
from .rolling_update import allowed_unavailable, unavailable
from .tracker import StartFailureTracker
from .view import Settings, View

_LABELS: Final = ("statefulset_namespace", "statefulset_name", "pod_management_policy")


class StatefulSetMetrics:
    """The ``statefulset_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self.stale_syncs = StaleSyncs(
            registry,
            "statefulset_controller",
            STATEFUL_SETS,
            CONTROLLER_REVISIONS,
            PODS,
            CLAIMS,
        )
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
    claim_prefixes,
    lambda old, new: old.spec.volume_claim_templates == new.spec.volume_claim_templates,
)
"""Stateful sets by the names of their claims without ordinals."""


class StatefulSetReconciler(Reconciler[StatefulSet]):
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
        self._by_claim = context.lister(STATEFUL_SETS, PODS_BY_CLAIM)
        revisions = self.lister(CONTROLLER_REVISIONS)
        self._mutations = Mutations(context.clock)
        self._history = History(
            context.client,
            STATEFUL_SETS,
            revisions,
            self._mutations,
            self._revision_mutated,
        )
        self._pod_claimer = Claimer(context.client, STATEFUL_SETS, PODS)
        self._deletions = UnseenDeletions(self._pods.get)
        self._start_failures = StartFailureTracker(context.clock)
        self._failed_pods = FailedPods(context.clock, context.server_clock)
        self._reads = OwnerReads(
            context.client, STATEFUL_SETS, self.objects, context.consistency
        )
        self._applier = StatefulSetApplier(
            context.client,
            context.recorder,
            self._history,
            self._reads,
            self._deletions,
        )

    # Watches, and the state that they keep.

    def _wants_claim(self, claim: PersistentVolumeClaim) -> Iterable[str]:
        """Return the keys of the sets that can create a pod after a claim is gone.

        If the pod exists, the claim is created anew a little later.
        """
        for key, has_pod in self._sets_of(claim):
            if has_pod:
                self.queue.add_after(key, _LOST_CLAIM_DELAY)
            else:
                yield key

    def _wants_free_claim(self, claim: PersistentVolumeClaim) -> Iterable[str]:
        """Return the keys of the sets that may wait until a claim loses an owner.

        The garbage collector only removes an owner reference if the claim has another.
        """
        if claim.metadata.owner_references:
            yield from (key for key, has_pod in self._sets_of(claim) if not has_pod)

    def _sets_of(self, claim: PersistentVolumeClaim) -> Iterable[tuple[str, bool]]:
        """Yield the keys of the sets of a claim, and whether they have its pod."""
        found = parent_and_ordinal(claim.metadata.name)
        if found is None:
            return
        namespace, (prefix, ordinal) = claim.metadata.namespace, found
        for each in self._by_claim.by_index(PODS_BY_CLAIM, f"{namespace}/{prefix}"):
            pod = self._pods.get(namespace, pod_name(each, ordinal))
            yield key_of(each), pod is not None

    def _wants_name(self, pod: Pod) -> Iterable[str]:
        """Return the key of the set that may need the name of a deleted pod."""
        found = parent_and_ordinal(pod.metadata.name)
        if found is None:
            return ()
        stateful_set = self.objects.get(pod.metadata.namespace, found[0])
        if stateful_set is None or is_controlled_by(pod, stateful_set):
            return ()
        return (key_of(stateful_set),)

    watches = (
        For(STATEFUL_SETS),
        Owns(PODS),
        Owns(CONTROLLER_REVISIONS),
        Maps(PODS, _wants_name, on=("delete",)),
        Maps(CLAIMS, _wants_claim, on=("delete",)),
        Maps(CLAIMS, _wants_free_claim, on=("update",)),
    )

    def deleted(self, obj: StatefulSet) -> None:
        """Drop the state of a set, so that a new one of its name starts afresh."""
        self.forget(key_of(obj))
        self._reads.forget(obj)

    def forget(self, key: str) -> None:
        """Drop the state of a key whose set is gone."""
        self._deletions.forget(key)
        self._start_failures.forget(key)
        self._failed_pods.forget(key)
        self._mutations.forget(key)
        self._metrics.forget(*split_key(key))

    def dependent_gone(self, key: str, obj: Pod | ControllerRevision) -> None:
        """Note that a pod is gone: it may have failed before."""
        if isinstance(obj, Pod):
            self._failed_pods.gone(key, obj)

    def _revision_mutated(self, stateful_set: StatefulSet, mutation: Mutation) -> None:
        """Tell of a revision that admission changes; ask again after the delay."""
        message = mutation.message
        self.recorder.event(
            STATEFUL_SETS, stateful_set, WARNING, REVISION_MUTATED, message
        )
        self.queue.add_after(key_of(stateful_set), mutation.seconds)

    def is_known_gone(self, obj: StatefulSet) -> bool:
        """Tell whether a response of the API server showed that this set is gone."""
        return self._reads.is_known_gone(obj)

    def stale(self, resource: AnyResource) -> None:
        """Count a sync that waits for a cache."""
        self._metrics.stale_syncs.count(resource)

    # The sync.

    async def reconcile(self, stateful_set: StatefulSet) -> Outcome:
        """Bring pods, claims, revisions and status closer to the spec."""
        if self._deletions.are_unseen(key_of(stateful_set)):
            return Requeue(_UNSEEN_RECHECK, "the cache does not show all deletions")
        try:
            selector = compile_selector(stateful_set.spec.selector)
        except SelectorError as error:
            self.logger.error("The selector of the set cannot be used", err=str(error))
            return DONE
        if is_deleting(stateful_set):
            found = self._find_pods(stateful_set, selector)
            pods = await self._claim_pods(stateful_set, selector, found)
            revisions = recorded(stateful_set)
        else:
            stored = await self._history.claim(stateful_set, selector)
            found = self._find_pods(stateful_set, selector)
            pods = await self._claim_pods(stateful_set, selector, found)
            revisions = await sync_revisions(
                self._history, stateful_set, stored, adds_defaults=self._adds_defaults
            )
        view = self._view(stateful_set, found, pods, revisions)
        if view is None:
            return Requeue(0.0, "the cache shows another pod of the set now")
        if not is_deleting(stateful_set):
            self._show_availability(view)
        return await decide_and_apply(
            view, decide, self._applier, self.clock, self.logger
        )

    def _show_availability(self, view: View) -> None:
        """Update the metrics of unavailable pods, for each strategy of updates."""
        if not self._settings.max_unavailable:
            return
        metadata = view.stateful_set.metadata
        slots = view.slots()
        now = self.clock.now()
        self._metrics.availability(
            metadata.namespace,
            metadata.name,
            view.stateful_set.spec.pod_management_policy,
            allowed_unavailable(view),
            unavailable(view, slots, now),
        )

    def _find_pods(self, stateful_set: StatefulSet, selector: Selector) -> FoundPods:
        """Return the pods of a set that are cached at this instant."""
        owned = self._pods.controlled_by(stateful_set)
        orphans = self._pods.orphans(stateful_set.metadata.namespace, selector)
        return find_pods(stateful_set, selector, owned, orphans)

    async def _claim_pods(
        self, stateful_set: StatefulSet, selector: Selector, found: FoundPods
    ) -> tuple[Pod, ...]:
        """Return the set's pods; adopt orphans, and release pods that do not match.

        Pods of the set match the selector and have a name that the set gives.
        """
        claimed = await self._pod_claimer.claim(stateful_set, selector, found.named)
        if not is_deleting(stateful_set):
            for pod in found.misnamed:
                await self._pod_claimer.release(stateful_set, pod)
        return tuple(claimed)

    def _view(
        self,
        stateful_set: StatefulSet,
        found: FoundPods,
        pods: tuple[Pod, ...],
        revisions: Revisions,
    ) -> View | None:
        """Return the view of a sync; only the caches are read.

        The caches may change in the meantime. Returns `None` if a pod of the set has
        appeared since its pods were `found`. The claims of one pod are read at one
        instant; the claims of other pods do not matter for it.
        """
        namespace = stateful_set.metadata.namespace
        own = {pod.metadata.name for pod in pods}
        foreign: dict[str, Pod] = {}
        for ordinal in ordinals(stateful_set):
            name = pod_name(stateful_set, ordinal)
            pod = None if name in own else self._pods.get(namespace, name)
            if pod is None:
                continue
            if found.lacks(pod):
                return None
            foreign[name] = pod
        return View(
            stateful_set=stateful_set,
            pods=pods,
            revisions=revisions,
            claims=(self._claims_of(stateful_set, pods)),
            foreign=foreign,
            failing_since=(self._start_failures.observe(key_of(stateful_set), pods)),
            held=(self._failed_pods.observe(stateful_set, pods)),
            settings=self._settings,
        )

    def _claims_of(self, stateful_set: StatefulSet, pods: Sequence[Pod]) -> Claims:
        """Return the cached claims of wanted and of present pods, by name."""
        claims: dict[str, KubeObject] = {}
        if not stateful_set.spec.volume_claim_templates:
            return claims
        wanted, namespace = ordinals(stateful_set), stateful_set.metadata.namespace
        present = (ordinal_of(stateful_set, pod) for pod in pods)
        others = (each for each in present if each is not None and each not in wanted)
        for number in (*wanted, *others):
            for name in claim_names(stateful_set, number):
                claim = self._claims.get(namespace, name)
                if claim is not None:
                    claims.setdefault(name, claim)
        return claims
