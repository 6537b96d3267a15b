"""The daemon set controller: its watches, and the sync of one daemon set.

Upstream: daemon_controller.go of pkg/controller/daemon.
"""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from controller_manager.api.apps.v1 import CONTROLLER_REVISIONS, DAEMON_SETS, DaemonSet
from controller_manager.api.core.v1 import NODES, PODS, Pod
from controller_manager.api.meta import (
    controller_reference,
    is_deleting,
    key_of,
)
from controller_manager.api.pods import next_availability
from controller_manager.api.selectors import Selector, SelectorError, compile_selector
from controller_manager.client.events.recorder import NORMAL, WARNING
from controller_manager.client.rest import errors
from controller_manager.control.controller_history import History
from controller_manager.control.controller_ref_manager import Claimer
from controller_manager.control.creation_delays import (
    AT_ONCE,
    age,
)
from controller_manager.control.expectations import StaleSyncs, State
from controller_manager.control.gates import COMPARISON_OPERATORS
from controller_manager.control.pod_control import at_once, pod_from_template
from controller_manager.control.pod_owner import PodOwnerReconciler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import (
    DONE,
    Done,
    Outcome,
    SyncError,
    earliest,
    failure_of,
)
from controller_manager.runtime.watches import For, Handles, Maps, Owns
from controller_manager.runtime.worker import Workers

from . import READS_OWN_WRITES, DaemonSetOptions
from .backoff import Delays, FailedPodBackoff
from .nodes import NodeHandlers, TemplateTracker, placement_of, target_of
from .pod_template import PodTemplates
from .pods import DaemonPods, Deletion, Plan, calculate_status, manage_pods
from .revisions import RevisionKeeper, Revisions, named_owner
from .rolling_update import plan_update


def _stale_syncs(registry: CollectorRegistry) -> StaleSyncs:
    return StaleSyncs(registry, "daemonset_controller", DAEMON_SETS, PODS)


def init_daemon_set_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (NewDaemonSetsController)."""
    reconciler = DaemonSetReconciler(context)
    return WorkerGroup(reconciler.make_workers(), reconciler.make_node_workers())


class DaemonSetReconciler(PodOwnerReconciler[DaemonSet]):
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
        super().__init__(context)
        gates = context.config.features
        self.workers = context.config.of(DaemonSetOptions).concurrent_syncs
        self.reads_own_writes = gates.is_enabled(READS_OWN_WRITES)
        compares_numbers = gates.is_enabled(COMPARISON_OPERATORS)
        self._templates = TemplateTracker(
            lambda template: placement_of(template, compares_numbers=compares_numbers)
        )
        self._nodes = NodeHandlers(context, self.objects, self._templates, self.queue)
        self.stale_syncs = context.metrics.of(_stale_syncs)
        self._backoff = FailedPodBackoff(context.clock)
        self._history = History(self)
        self._revisions = RevisionKeeper(context.client, self._history)
        self._claimer = Claimer(context.client, DAEMON_SETS, PODS)

    def make_node_workers(self) -> Workers:
        """Return the workers that process changed nodes; they do not run yet."""
        return self._nodes.workers(self.workers)

    # Handlers, and the state that they keep.

    def starting(self) -> None:
        """Note that this process begins to lead."""
        super().starting()
        self._nodes.start()

    def forget(self, key: str) -> None:
        """Drop the state of a key whose daemon set is gone."""
        super().forget(key)
        self._backoff.forget(key)
        self._templates.forget(key)
        self._history.forget(key)

    def pod_gone(self, key: str, pod: Pod) -> None:
        """Note a failed pod that others have deleted."""
        if pod.metadata.uid not in self._expectations.awaited_deletions(key):
            self._note_failure(key, pod)
        super().pod_gone(key, pod)

    def _note_failure(self, key: str, pod: Pod) -> None:
        # A failed pod that another client has deleted early: that may be a program that
        # deletes all failed pods. Somebody who deletes an older one asks for another
        # attempt now.
        daemon_set = self.objects.by_key(key)
        if pod.status.phase != "Failed" or daemon_set is None:
            return
        if age(pod, self.context.server_clock.now()) < AT_ONCE:
            generation, node = daemon_set.status.observed_generation, target_of(pod)
            self._backoff.deleted_by_others(key, generation, node, pod.metadata.uid)

    # The sync.

    async def reconcile(self, daemon_set: DaemonSet) -> Outcome:
        """Create and delete pods, and write the status (syncDaemonSet)."""
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
        fits = self._nodes.fits(compiled)
        fit_of = partial(self._nodes.fit_of, compiled)
        placed = DaemonPods.of(daemon_set, revisions.hash, fits, pods, fit_of)
        state = self._expectations.state(key)
        if state is State.UNKNOWN or (
            state is State.FULFILLED and self._may_repeat_former_leader(placed)
        ):
            return await self._read_api_server(daemon_set, selector)
        delay = None
        if state is State.PENDING:
            ending = self._report(placed, is_processed=False)
        else:
            placed, delay, failure = await self._sync_pods(placed)
            ending = self._end(placed, failure, revisions, pods)
        next_change = self._next_change(placed, delay)
        failed = await failure_of(ending, next_change)
        return failed or Done(self._requeue_after(key, next_change))

    def _usable_selector(self, daemon_set: DaemonSet) -> Selector | None:
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
        pods = self._pods.candidates(daemon_set, selector)
        return await self._claimer.claim(daemon_set, selector, pods)

    def _may_repeat_former_leader(self, placed: DaemonPods) -> bool:
        if not self._takeover.must_recheck(placed.daemon_set):
            return False
        return not (self._manage(placed).is_empty and self._update(placed).is_empty)

    async def _sync_pods(
        self, placed: DaemonPods
    ) -> tuple[DaemonPods, float | None, Exception | None]:
        """Give each node its pods, then continue the update; stop at a failure.

        Returns the pods after that, the seconds until the delay of a failed pod ends,
        and the failure.
        """
        delay: float | None = None
        for plan_of in (self._manage, self._update):
            plan = plan_of(placed)
            if plan.requeue_after is not None:
                delay = plan.requeue_after
            if plan.is_empty:
                continue
            changes = {"creating": len(plan.nodes), "deleting": len(plan.deletions)}
            self.logger.v(2).info("Changing pods", **changes)
            placed, failure = await self._sync_nodes(placed, plan)
            if failure is not None:
                return placed, delay, failure
        return placed, delay, None

    def _manage(self, placed: DaemonPods) -> Plan:
        return manage_pods(placed, self._delays(placed), self.clock.now())

    def _update(self, placed: DaemonPods) -> Plan:
        return plan_update(placed, self._delays(placed).missing, self.clock.now())

    def _delays(self, placed: DaemonPods) -> Delays:
        generation = placed.daemon_set.status.observed_generation
        return self._backoff.delays(key_of(placed.daemon_set), generation, placed.fits)

    async def _sync_nodes(
        self, placed: DaemonPods, plan: Plan
    ) -> tuple[DaemonPods, Exception | None]:
        """Create by slow start, then delete all, even if a creation has failed."""
        daemon_set = placed.daemon_set
        key, generation = key_of(daemon_set), daemon_set.status.observed_generation
        uids = {each.pod.metadata.uid for each in plan.deletions}
        self._expectations.expect(key, len(plan.nodes), uids)
        for each in plan.deletions:
            if each.has_ended:
                self._record_end(daemon_set, each)
        for node in plan.nodes:
            self._backoff.created(key, generation, node)
        created, failure = await self._create_on(placed, plan.nodes)
        ended = [each.pod for each in plan.deletions]
        deleted, undeleted = await at_once(ended, partial(self._delete_pod, daemon_set))
        uids = {pod.metadata.uid for pod in deleted}
        failures = (each for each in (failure, undeleted) if each is not None)
        return placed.after(created, uids), errors.gravest(failures)

    def _record_end(self, daemon_set: DaemonSet, deletion: Deletion) -> None:
        metadata = deletion.pod.metadata
        which = f"{metadata.namespace}/{metadata.name} on node {deletion.node}"
        if deletion.pod.status.phase == "Failed":
            generation = daemon_set.status.observed_generation
            key, uid = key_of(daemon_set), metadata.uid
            self._backoff.replaced(key, generation, deletion.node, uid)
            message = f"Found failed daemon pod {which}, will try to kill it"
            event = WARNING, "FailedDaemonPod", message
        else:
            message = f"Found succeeded daemon pod {which}, will try to delete it"
            event = NORMAL, "SucceededDaemonPod", message
        self.recorder.event(DAEMON_SETS, daemon_set, *event)

    async def _create_on(
        self, placed: DaemonPods, nodes: Sequence[str]
    ) -> tuple[list[Pod], Exception | None]:
        created: list[Pod] = []
        if not nodes:
            return created, None
        daemon_set = placed.daemon_set
        templates = PodTemplates(daemon_set, placed.revision_hash)
        reference = controller_reference(daemon_set, DAEMON_SETS)
        waiting = iter(nodes)

        async def create() -> None:
            template = templates.for_node(next(waiting))
            body = pod_from_template(template, daemon_set, reference)
            created.append(await self._pod_control.create(PODS, daemon_set, body))

        key = key_of(daemon_set)
        return created, await self._create_pods(key, len(nodes), create)

    async def _end(
        self,
        placed: DaemonPods,
        failure: Exception | None,
        revisions: Revisions,
        pods: Sequence[Pod],
    ) -> None:
        if failure is None:
            try:
                await self._revisions.clean_up(placed.daemon_set, revisions, pods)
            except (
                errors.APIError,
                errors.ProtocolError,
                errors.TransportError,
            ) as error:
                failure = error
        await self._report(placed, is_processed=True)
        if failure is not None:
            raise failure

    def _next_change(self, placed: DaemonPods, delay: float | None) -> float | None:
        pods = (pod for each in placed.pods.values() for pod in each)
        minimum = placed.daemon_set.spec.min_ready_seconds
        return earliest(delay, next_availability(pods, minimum, self.clock.now()))

    async def _report(self, placed: DaemonPods, *, is_processed: bool) -> None:
        daemon_set = placed.daemon_set
        status = calculate_status(placed, self.clock.now(), is_processed=is_processed)
        if status != daemon_set.status:
            await self._reads.update_status(replace(daemon_set, status=status))
