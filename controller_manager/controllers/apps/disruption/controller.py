"""The disruption controller: its watches, and the sync of one budget.

Upstream: disruption.go of pkg/controller/disruption.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from controller_manager.api.apps import v1
from controller_manager.api.core.v1 import PODS, REPLICATION_CONTROLLERS, Pod
from controller_manager.api.meta import KubeObject, is_deleting, key_of, labels_of
from controller_manager.api.pods import is_ready
from controller_manager.api.policy.v1 import (
    BUDGETS,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
)
from controller_manager.api.scalars import IntOrStringError
from controller_manager.api.selectors import (
    SelectorError,
    as_go_prints,
    compile_selector,
)
from controller_manager.client.discovery.resource_mapper import KindNotServed
from controller_manager.client.events.recorder import NORMAL, WARNING
from controller_manager.client.rest import errors
from controller_manager.control.scales import NoScale
from controller_manager.informers import store
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import DONE, Done, Failed, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Handles

from . import health
from .owners import OwnerScales, Uncountable
from .stale_pods import StalePodDisruptions

_REQUEUE_AFTER_ERROR: Final = 300.0
"""Seconds until a budget that could not be calculated is calculated again."""

_REQUEUE_AFTER_KIND_NOT_SERVED: Final = 30.0
"""The same if the kind of an owner is not served: it may be defined at any time."""

_CONFIGURATION_ERRORS: Final = (
    SelectorError,
    IntOrStringError,
    Uncountable,
    NoScale,
    KindNotServed,
)
"""Errors that stay until the budget, the pods, or the served kinds change."""

_REQUEST_ERRORS: Final = (errors.APIError, errors.TransportError, errors.ProtocolError)

UNMANAGED_PODS: Final = (
    "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be "
    "unmanaged. As a result, the status of the PDB cannot be calculated correctly, "
    "which may result in undefined behavior. To account for these pods please set "
    '".spec.minAvailable" field of the PDB to an integer value.'
)


def init_disruption_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (startDisruptionController)."""
    reconciler = DisruptionReconciler(context)
    return WorkerGroup(
        reconciler.make_workers(), reconciler.stale_pod_disruptions.make_workers()
    )


class DisruptionReconciler(Reconciler[PodDisruptionBudget]):
    """Writes the number of pods that may be evicted into the status of budgets."""

    watches = (
        For(BUDGETS),
        Handles(
            PODS,
            lambda self: Handler(self._pod_added, self._pod_updated, self._pod_added),
        ),
        # The cache may show an owner later than its pods.
        Handles(
            v1.DEPLOYMENTS,
            lambda self: Handler(
                self._add_budgets_of_deployment, self._deployment_scaled
            ),
        ),
        Handles(
            v1.REPLICASETS,
            lambda self: Handler(self._add_budgets_of_pods, self._replica_set_scaled),
        ),
        *(
            Handles(each, lambda self: Handler(self._add_budgets_of_pods, self._scaled))
            for each in (REPLICATION_CONTROLLERS, v1.STATEFUL_SETS)
        ),
        Handles(PODS, lambda self: self.stale_pod_disruptions.handler()),
    )
    queue_name = "disruption"
    workers = 5
    """Upstream has one worker, so one slow read of a scale delays all budgets."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._clock = context.server_clock
        self._owners = OwnerScales(context)
        self._pods = context.lister(
            PODS, store.BY_LABEL, store.BY_NAMESPACE, store.BY_CONTROLLER
        )
        self._budgets = context.lister(BUDGETS, store.BY_SELECTED_LABEL)
        self._leads = False
        self.stale_pod_disruptions = StalePodDisruptions(context)

    # Watches. Upstream adds only one of a pod's budgets at each change of the pod. It
    # adds none when the owner of the pod is scaled: the status changes with the next
    # pod only.

    def starting(self) -> None:
        """Record events from now on; before this, another process leads."""
        self._leads = True

    def enqueue_all(self) -> Iterator[None]:
        """Add every budget; record events for the pods that have several."""
        yield from super().enqueue_all()
        if len(self._budgets) <= 1:
            return
        for pod in self._pods.all():
            self._budgets_of_pod(pod)
            yield

    def _budgets_of_pod(self, pod: Pod) -> list[PodDisruptionBudget]:
        if not len(self._budgets):
            return []
        found = self._selecting(pod)
        if len(found) > 1 and self._leads:
            message = (
                f'Pod "{pod.metadata.namespace}"/"{pod.metadata.name}" matches '
                "multiple PodDisruptionBudgets.  Chose "
                f'"{found[0].metadata.name}" arbitrarily.'
            )
            reason = "MultiplePodDisruptionBudgets"
            self.recorder.event(PODS, pod, WARNING, reason, message)
        return found

    def _selecting(self, pod: Pod) -> list[PodDisruptionBudget]:
        """Return the budgets that select a pod (GetPodPodDisruptionBudgets)."""
        namespace, labels = pod.metadata.namespace, labels_of(pod)
        entries = [store.label_entry(namespace, *pair) for pair in labels.items()]
        found = [
            budget
            for entry in (*entries, namespace)
            for budget in self._budgets.by_index(store.BY_SELECTED_LABEL, entry)
            if _selects(budget, pod)
        ]
        return sorted(found, key=lambda each: each.metadata.name)

    def _pod_added(self, pod: Pod) -> None:
        self._add_all(self._budgets_of_pod(pod))

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        found = self._budgets_of_pod(new)
        if old.metadata.labels != new.metadata.labels:
            self._add_all(self._selecting(old))
        elif not found or _count_the_same(old, new):
            return
        self._add_all(found)

    def _scaled(self, old: v1.Workload, new: v1.Workload) -> None:
        if old.spec.replicas != new.spec.replicas:
            self._add_budgets_of_pods(new)

    def _replica_set_scaled(self, old: v1.ReplicaSet, new: v1.ReplicaSet) -> None:
        # The scale of a replica set does not count while it has a deployment.
        if old.metadata.owner_references != new.metadata.owner_references:
            self._add_budgets_of_pods(new)
        elif self._owners.deployments.controller_of(new) is None:
            self._scaled(old, new)

    def _deployment_scaled(self, old: v1.Deployment, new: v1.Deployment) -> None:
        if old.spec.replicas != new.spec.replicas:
            self._add_budgets_of_deployment(new)

    def _add_budgets_of_deployment(self, deployment: v1.Deployment) -> None:
        for replica_set in self._owners.replica_sets.controlled_by(deployment):
            self._add_budgets_of_pods(replica_set)

    def _add_budgets_of_pods(self, owner: KubeObject) -> None:
        # Most pods of an owner have the same labels. Before this process leads there is
        # nothing to do: all budgets are added when it does.
        if not self._leads:
            return
        by_labels: dict[frozenset[tuple[str, str]], Pod] = {}
        for pod in self._pods.controlled_by(owner):
            labels = frozenset((pod.metadata.labels or {}).items())
            by_labels.setdefault(labels, pod)
        for pod in by_labels.values():
            self._add_all(self._selecting(pod))

    def _add_all(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        for budget in budgets:
            self.queue.add(key_of(budget))

    # The sync.

    async def reconcile(self, budget: PodDisruptionBudget) -> Outcome:
        """Count the pods of a budget, and write its status if it has changed."""
        try:
            counted = await self._count(budget)
        except _CONFIGURATION_ERRORS as error:
            await self._fail_safe(budget, str(error))
            is_of_kind = isinstance(error, KindNotServed)
            return Done(
                _REQUEUE_AFTER_KIND_NOT_SERVED if is_of_kind else _REQUEUE_AFTER_ERROR
            )
        except _REQUEST_ERRORS as error:
            await self._fail_safe(budget, str(error))
            raise
        self._record_not_deleted(budget, counted.not_deleted)
        status = health.calculated_status(budget, counted, self._clock.now())
        try:
            is_gone = not await self._write(budget, status)
        except _REQUEST_ERRORS as error:
            if isinstance(error, errors.APIError) and not isinstance(
                error, errors.Conflict
            ):
                await self._fail_safe(budget, str(error))
            return Failed(error, counted.requeue_after)
        return DONE if is_gone else Done(counted.requeue_after)

    async def _count(self, budget: PodDisruptionBudget) -> health.Health:
        pods = self._select(budget)
        try:
            expected = await self._expected(budget, pods)
            return health.assess(budget, pods, expected, self._clock.now())
        except (*_CONFIGURATION_ERRORS, *_REQUEST_ERRORS) as error:
            if not health.says_failure(budget, str(error)):
                message = f"Failed to calculate the number of expected pods: {error}"
                reason = "CalculateExpectedPodCountFailed"
                self._record(budget, WARNING, reason, message)
            raise

    def _select(self, budget: PodDisruptionBudget) -> Sequence[Pod]:
        try:
            selector = compile_selector(budget.spec.selector)
        except SelectorError as error:
            self._record(budget, WARNING, "NoPods", f"Failed to get pods: {error}")
            raise
        pods = self._pods.matching(budget.metadata.namespace, selector)
        if not pods:
            self._record(budget, NORMAL, "NoPods", "No matching pods found")
        return pods

    async def _expected(self, budget: PodDisruptionBudget, pods: Sequence[Pod]) -> int:
        if not health.is_limited(budget):
            return 0
        if not health.needs_scales(budget):
            return len(pods)
        expected, has_unmanaged = await self._owners.expected(pods)
        if has_unmanaged:
            text = as_go_prints(budget.spec.selector)
            message = UNMANAGED_PODS.format(selector=text)
            self._record(budget, WARNING, "UnmanagedPods", message)
        return expected

    def _record_not_deleted(
        self, budget: PodDisruptionBudget, not_deleted: Iterable[str]
    ) -> None:
        namespace = budget.metadata.namespace
        for name in not_deleted:
            pod = self._pods.get(namespace, name)
            if pod is not None:
                # Upstream's text has the namespace where the budget's name belongs.
                message = (
                    f"Pod was expected by PDB {namespace}/{namespace} to be deleted "
                    "but it wasn't"
                )
                self.recorder.event(PODS, pod, WARNING, "NotDeleted", message)

    def _record(
        self, budget: PodDisruptionBudget, kind: str, reason: str, message: str
    ) -> None:
        self.recorder.event(BUDGETS, budget, kind, reason, message)

    async def _fail_safe(self, budget: PodDisruptionBudget, why: str) -> None:
        """Allow no disruption of pods that cannot be counted (failSafe)."""
        self.logger.error("Failed to sync PDB", budget=key_of(budget), err=why)
        status = health.failed_status(budget, why, self._clock.now())
        await self._write(budget, status)

    async def _write(
        self, budget: PodDisruptionBudget, status: PodDisruptionBudgetStatus
    ) -> bool:
        # An eviction may change the status at any time. So the write carries the
        # version of the budget, and the API server refuses it after an eviction.
        if status == budget.status:
            return True
        name = budget.metadata.name
        try:
            await self.client.update_for_metadata(
                BUDGETS, replace(budget, status=status), "status"
            )
        except errors.NotFound as error:
            if errors.is_about(error, name):
                return False
            raise
        return True


def _selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    try:
        selector = compile_selector(budget.spec.selector)
    except SelectorError:
        return False
    return selector.matches(labels_of(pod))


def _count_the_same(old: Pod, new: Pod) -> bool:
    return (
        old.metadata.uid == new.metadata.uid
        and is_deleting(old) == is_deleting(new)
        and is_ready(old) == is_ready(new)
        and old.metadata.owner_references == new.metadata.owner_references
    )
