"""Watches, caches and the sync of the daemon set controller.

Upstream: pkg/controller/daemon of v1.36 (daemon_controller.go, update.go). `sync` and
`status` decide; `apply` and `revisions` write.

Metrics of daemon sets, with upstream's names.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry

from controller_manager.api.apps.v1 import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    ControllerRevision,
    DaemonSet,
)
from controller_manager.api.core.v1 import NODES, PODS, Pod
from controller_manager.api.meta import is_deleting, key_of
from controller_manager.api.pods import next_availability
from controller_manager.api.resource import AnyResource
from controller_manager.api.selectors import Selector, SelectorError, compile_selector
from controller_manager.client.errors import (
    APIError,
    Conflict,
    NotFound,
    ProtocolError,
    TransportError,
    is_about,
)
from controller_manager.client.events import WARNING
from controller_manager.control.claims import Claimer
from controller_manager.control.expectations import Expectations, State
from controller_manager.control.failed_at_once import AT_ONCE, age
from controller_manager.control.gates import COMPARISON_OPERATORS
from controller_manager.control.history.revisions import History
from controller_manager.control.mutations import REVISION_MUTATED, Mutation, Mutations
from controller_manager.control.owner_reads import OwnerReads
from controller_manager.control.pod_control import PodControl
from controller_manager.control.stale_syncs import StaleSyncs
from controller_manager.control.takeover import Takeover
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import (
    DONE,
    Done,
    Outcome,
    Requeue,
    SyncError,
    failure_of,
)
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Handles, Maps, Owns
from controller_manager.runtime.worker import Workers

from .apply import DaemonPods
from .backoff import FailedPodBackoff
from .handlers import NodeHandlers
from .nodes import placement_of, target_of
from .options import READS_OWN_WRITES, DaemonSetOptions
from .revisions import RevisionKeeper, Revisions, named_owner
from .status import calculate_status
from .sync import DaemonSetSync, Progress
from .tracker import TemplateTracker
from .view import View


class DaemonSetMetrics:
    """The ``daemonset_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self.stale_syncs = StaleSyncs(
            registry, "daemonset_controller", DAEMON_SETS, PODS
        )


_UNSEEN_RECHECK: Final = 5.0
"""Seconds until the next sync while the cache does not show all writes."""


def init_daemon_set_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (NewDaemonSetsController)."""
    reconciler = DaemonSetReconciler(context)
    return WorkerGroup(reconciler.make_workers(), reconciler.make_node_workers())


class DaemonSetReconciler(Reconciler[DaemonSet]):
    """Keeps one pod of each daemon set on each node where it must run."""

    watches = (
        For(DAEMON_SETS),
        Owns(PODS),
        # A user may create a second, equal revision and expects to see both.
        Owns(CONTROLLER_REVISIONS, when_added=False),
        # A daemon set may use a revision of its predecessor until that is deleted.
        Maps(CONTROLLER_REVISIONS, lambda _, each: named_owner(each), on=("delete",)),
        Handles(NODES, lambda self: self._nodes.handler()),
    )
    queue_name = "daemonset"

    def __init__(self, context: ControllerContext) -> None:
        """Take the context; also watch nodes."""
        super().__init__(context)
        gates = context.config.features
        self.workers = context.config.of(DaemonSetOptions).concurrent_syncs
        self.reads_own_writes = gates.is_enabled(READS_OWN_WRITES)
        compares_numbers = gates.is_enabled(COMPARISON_OPERATORS)
        self._templates = TemplateTracker(
            lambda template: placement_of(template, compares_numbers=compares_numbers)
        )
        self._nodes = NodeHandlers(
            context,
            self.objects,
            self._templates,
            self.queue,
        )
        self._metrics = context.metrics.of(DaemonSetMetrics)
        self._expectations = Expectations(context.clock)
        self._backoff = FailedPodBackoff(context.clock)
        self._takeover = Takeover(
            context.server_clock,
            elected=context.config.generic.leader_election.leader_elect,
        )
        client = context.client
        self._reads = OwnerReads(client, DAEMON_SETS, self.objects, context.consistency)
        self._mutations = Mutations(context.clock)
        history = History(
            client,
            DAEMON_SETS,
            self.lister(CONTROLLER_REVISIONS),
            self._mutations,
            self._revision_mutated,
        )
        self._revisions = RevisionKeeper(client, history)
        self._claimer = Claimer(client, DAEMON_SETS, PODS)
        pods = DaemonPods(
            PodControl(client, context.recorder, DAEMON_SETS),
            context.recorder,
            self._expectations,
            self._backoff,
        )
        self._updates = DaemonSetSync(
            pods, self._backoff, context.clock, context.logger
        )

    def make_node_workers(self) -> Workers:
        """Return the workers that process changed nodes; they do not run yet."""
        return self._nodes.workers(self.workers)

    # Handlers, and the state that they keep.

    def starting(self) -> None:
        """Note that this process begins to lead."""
        self._takeover.start_leading()
        self._nodes.start()

    def deleted(self, obj: DaemonSet) -> None:
        """Drop the state of a daemon set; a new one of its name starts afresh."""
        self.forget(key_of(obj))
        self._reads.forget(obj)

    def forget(self, key: str) -> None:
        """Drop the state of a key whose daemon set is gone."""
        self._expectations.forget(key)
        self._takeover.forget(key)
        self._backoff.forget(key)
        self._templates.forget(key)
        self._mutations.forget(key)

    def _revision_mutated(self, daemon_set: DaemonSet, mutation: Mutation) -> None:
        """Tell of a revision that admission changes; ask again after the delay."""
        message = mutation.message
        self.recorder.event(DAEMON_SETS, daemon_set, WARNING, REVISION_MUTATED, message)
        self.queue.add_after(key_of(daemon_set), mutation.seconds)

    def dependent_added(self, key: str, obj: Pod | ControllerRevision) -> None:
        """Expect one creation fewer."""
        if isinstance(obj, Pod):
            self._expectations.creations_settled(key)

    def dependent_gone(self, key: str, obj: Pod | ControllerRevision) -> None:
        """Stop expecting the deletion of this pod; note one that others deleted."""
        if isinstance(obj, Pod):
            if obj.metadata.uid not in self._expectations.awaited_deletions(key):
                self._note_failure(key, obj)
            self._expectations.deletion_settled(key, obj.metadata.uid)

    def _note_failure(self, key: str, pod: Pod) -> None:
        """Note a failed pod that another client has deleted soon after its creation.

        That may be a program that deletes all failed pods. Somebody who deletes an
        older one asks for another attempt now.
        """
        daemon_set = self.objects.by_key(key)
        if pod.status.phase != "Failed" or daemon_set is None:
            return
        if age(pod, self.context.server_clock.now()) < AT_ONCE:
            generation, node = daemon_set.status.observed_generation, target_of(pod)
            self._backoff.deleted_by_others(key, generation, node, pod.metadata.uid)

    def is_known_gone(self, obj: DaemonSet) -> bool:
        """Tell whether the API server has said that this daemon set is gone."""
        return self._reads.is_known_gone(obj)

    def stale(self, resource: AnyResource) -> None:
        """Count a sync that waits for a cache, if upstream's gate is enabled."""
        if self.reads_own_writes:
            self._metrics.stale_syncs.count(resource)

    # The sync.

    async def reconcile(self, daemon_set: DaemonSet) -> Outcome:
        """Create and delete pods of the daemon set, and write its status."""
        key, compiled = key_of(daemon_set), self._templates.of(daemon_set)
        if self.reads_own_writes:
            self._expectations.cache_caught_up(key)
        selector = self._usable_selector(daemon_set)
        if selector is None or is_deleting(daemon_set):
            return DONE
        revisions = await self._revisions.construct(
            daemon_set, selector, compiled, lambda: self._claim(daemon_set, selector)
        )
        pods = await self._claim(daemon_set, selector)
        fits, fit_of = self._nodes.fits(compiled), self._nodes.fit_function(compiled)
        view = View.of(daemon_set, revisions.hash, fits, pods, fit_of)
        state = self._expectations.state(key)
        if state is State.UNKNOWN or (
            state is State.FULFILLED and self._may_repeat_former_leader(view)
        ):
            return await self._read_api_server(daemon_set, selector)
        if state is State.PENDING:
            progress = Progress(view)
            ending = self._report(view, is_processed=False)
        else:
            progress = await self._updates.carry_out(view)
            ending = self._end(progress, revisions, pods)
        next_change = self._next_change(progress)
        failed = await failure_of(ending, next_change)
        return failed or Done(self._requeue_after(key, next_change))

    async def _end(
        self, progress: Progress, revisions: Revisions, pods: Sequence[Pod]
    ) -> None:
        """Delete revisions and write the status; then raise the first failure."""
        failure = progress.failure
        if failure is None:
            daemon_set = progress.view.daemon_set
            failure = await self._clean_up(daemon_set, revisions, pods)
        await self._report(progress.view, is_processed=True)
        if failure is not None:
            raise failure

    def _usable_selector(self, daemon_set: DaemonSet) -> Selector | None:
        """Return the selector; warn, and return `None`, if it selects all pods.

        Raises SyncError for a selector that the API server should have refused.
        """
        try:
            selector = compile_selector(daemon_set.spec.selector)
        except SelectorError as error:
            msg = f"the selector cannot be used: {error}"
            raise SyncError(msg) from error
        if not selector.is_empty:
            return selector
        message = (
            "This daemon set is selecting all pods. A non-empty selector is required."
        )
        self.recorder.event(DAEMON_SETS, daemon_set, WARNING, "SelectingAll", message)
        return None

    async def _claim(self, daemon_set: DaemonSet, selector: Selector) -> list[Pod]:
        pods = self.lister(PODS)
        owned = pods.controlled_by(daemon_set)
        orphans = pods.orphans(daemon_set.metadata.namespace, selector)
        return await self._claimer.claim(daemon_set, selector, (*owned, *orphans))

    def _may_repeat_former_leader(self, view: View) -> bool:
        """Tell whether a former leader may have made the planned changes already."""
        must_recheck = self._takeover.must_recheck(view.daemon_set)
        return must_recheck and self._updates.are_needed(view)

    async def _clean_up(
        self, daemon_set: DaemonSet, revisions: Revisions, pods: Sequence[Pod]
    ) -> Exception | None:
        """Delete revisions; return a failure, so that the status is written first."""
        try:
            await self._revisions.clean_up(daemon_set, revisions, pods)
        except (APIError, ProtocolError, TransportError) as error:
            return error
        return None

    def _next_change(self, progress: Progress) -> float | None:
        """Return the seconds until a pod is available, or the delay of one ends."""
        view = progress.view
        pods = (pod for each in view.pods.values() for pod in each)
        minimum = view.daemon_set.spec.min_ready_seconds
        available_in = next_availability(pods, minimum, self.clock.now())
        seconds = (progress.requeue_after, available_in)
        return min((each for each in seconds if each is not None), default=None)

    def _requeue_after(self, key: str, next_change: float | None) -> float | None:
        """Return the seconds until the next sync, or `None` if an event causes it.

        While a write of this sync is not visible, the next sync must not depend on an
        event: a pod can be created and deleted while the watch is broken.
        """
        if self._expectations.state(key) is State.FULFILLED:
            return next_change
        if next_change is None:
            return _UNSEEN_RECHECK
        return min(_UNSEEN_RECHECK, next_change)

    async def _read_api_server(
        self, daemon_set: DaemonSet, selector: Selector
    ) -> Outcome:
        """Wait until the caches show all writes, before the next writes.

        This is needed if a write got no response, was not visible for five minutes, or
        may have been made by the former leader.
        """
        await self._reads.wait_for_all_caches(daemon_set, selector)
        key = key_of(daemon_set)
        self._expectations.forget(key)
        self._takeover.rechecked(key)
        self.logger.v(2).info(
            "The cache may be stale, so the pods are read from the API server"
        )
        return Requeue(0.0, "the cache may be stale")

    async def _report(self, view: View, *, is_processed: bool) -> None:
        """Write the status if it has changed."""
        daemon_set = view.daemon_set
        status = calculate_status(view, self.clock.now(), is_processed=is_processed)
        if status == daemon_set.status:
            return
        reported = msgspec.structs.replace(daemon_set, status=status)
        try:
            await self.client.update_for_metadata(DAEMON_SETS, reported, "status")
        except NotFound as error:
            if not is_about(error, daemon_set.metadata.name):
                raise
            self._reads.mark_gone(daemon_set)
        except Conflict:
            await self._reads.wait_for_cache(daemon_set)
            raise
