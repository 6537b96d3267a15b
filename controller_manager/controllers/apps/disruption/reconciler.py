"""Watches and the sync of the disruption controller.

Upstream: pkg/controller/disruption/disruption.go of v1.36. `decide` counts the
pods, and `status` makes the status from the numbers.

A second queue resets the condition DisruptionTarget of pods that were not deleted.

Upstream: syncStalePodDisruption of disruption.go.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS, STATEFUL_SETS
from controller_manager.api.conditions import find_condition
from controller_manager.api.core.v1 import (
    PODS,
    REPLICATION_CONTROLLERS,
    Pod,
    PodCondition,
)
from controller_manager.api.intstr import IntOrStringError
from controller_manager.api.meta import is_deleting, key_of
from controller_manager.api.pods import is_terminal
from controller_manager.api.policy.v1 import (
    BUDGETS,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
)
from controller_manager.api.resource import metadata_of
from controller_manager.api.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    SelectorError,
)
from controller_manager.api.times import format_time, parse_time
from controller_manager.client.errors import (
    APIError,
    Conflict,
    NotFound,
    ProtocolError,
    TransportError,
    is_about,
)
from controller_manager.client.events import NORMAL, WARNING
from controller_manager.client.resource_mapper import KindNotServed
from controller_manager.control.scale.scales import NoScale
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.informers.indexes import (
    BY_CONTROLLER,
    BY_LABEL,
    BY_NAMESPACE,
    BY_SELECTED_LABEL,
)
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import DONE, Done, Failed, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Handles
from controller_manager.runtime.worker import Workers

from .decide import Health, assess, is_limited, needs_scales
from .handlers import BudgetHandlers
from .owners import OwnerScales, Uncountable
from .selectors import pods_of
from .status import calculated_status, failed_status, says_failure

DISRUPTION_TARGET: Final = "DisruptionTarget"
STALE_AFTER: Final = timedelta(minutes=2)
"""The time in which a pod with the condition should be deleted."""

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)

_BY_KUBELET: Final = "TerminationByKubelet"
"""The reason of a kubelet's condition: its pod may take any time to end."""


def stale_since(pod: Pod) -> datetime | None:
    """Return the instant from which on the condition of a pod is stale.

    `None` means never: the pod has no such condition, is being deleted, or has ended.
    """
    condition = _condition(pod)
    if condition is None or condition.status != "True":
        return None
    if condition.reason == _BY_KUBELET or is_deleting(pod) or is_terminal(pod):
        return None
    if not condition.last_transition_time:
        return _LONG_AGO
    return parse_time(condition.last_transition_time) + STALE_AFTER


def _condition(pod: Pod) -> PodCondition | None:
    return find_condition(pod.status.conditions, DISRUPTION_TARGET)


class StalePodDisruptions:
    """Sets the condition to False if a pod has not ended two minutes after it."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._client = context.client
        self._clock = context.server_clock
        self._logger = context.logger
        self._queue = context.queue("stale_pod_disruption")
        self._pods = context.lister(PODS)
        self._budgets = context.lister(BUDGETS)

    def handler(self) -> Handler[Pod]:
        """Return the handler of pods."""
        return Handler(
            on_add=self._changed,
            on_update=lambda _, new: self._changed(new),
            on_delete=lambda pod: self._queue.cancel(key_of(pod)),
            depends_on=DependsOn(
                "metadata.deletionTimestamp",
                f"status.conditions[{DISRUPTION_TARGET}]",
                "status.phase",
            ),
        )

    def make_workers(self) -> Workers:
        """Return one worker, as upstream has; it does not run yet."""
        return self._context.workers(self._queue, self._sync, 1, self._start)

    def _start(self) -> Iterator[None]:
        """Add the pods that got the condition before this process led."""
        for pod in self._pods.all():
            self._changed(pod)
            yield

    def _changed(self, pod: Pod) -> None:
        if (since := stale_since(pod)) is not None:
            self._queue.add_after(key_of(pod), self._seconds_until(since))

    def _seconds_until(self, moment: datetime) -> float:
        return max(0.0, (moment - self._clock.now()).total_seconds())

    async def _sync(self, key: str) -> Outcome:
        pod = self._pods.by_key(key)
        since = stale_since(pod) if pod is not None else None
        if pod is None or since is None:
            return DONE
        if left := self._seconds_until(since):
            return Done(left)
        await self._reset(pod)
        if self._budgets.by_key(key) is None:
            # This is the key of a pod, so no sync waits until the cache shows the
            # write.
            self._context.consistency.forget(key)
        return DONE

    async def _reset(self, pod: Pod) -> None:
        """Set the condition to False, unless the pod has changed in the meantime."""
        metadata = pod.metadata
        patch = {
            "metadata": {
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
            },
            "status": {"conditions": [self._reset_condition(pod)]},
        }
        try:
            await self._client.patch(
                metadata_of(PODS),
                metadata.namespace,
                metadata.name,
                patch,
                subresource="status",
            )
        except NotFound:
            return
        self._logger.v(2).info(
            "Reset stale DisruptionTarget condition to False", pod=key_of(pod)
        )

    def _reset_condition(self, pod: Pod) -> dict[str, Any]:
        """Return the new condition; the API server removes the null fields."""
        condition: dict[str, Any] = {
            "type": DISRUPTION_TARGET,
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": format_time(self._clock.now()),
            "reason": None,
            "message": None,
        }
        if pod.metadata.generation:
            condition["observedGeneration"] = pod.metadata.generation
        return condition


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

_REQUEST_ERRORS: Final = (APIError, TransportError, ProtocolError)


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
        Handles(PODS, lambda self: self._changes.of_pods()),
        Handles(DEPLOYMENTS, lambda self: self._changes.of_deployments()),
        Handles(REPLICASETS, lambda self: self._changes.of_replica_sets()),
        Handles(REPLICATION_CONTROLLERS, lambda self: self._changes.of_owners()),
        Handles(STATEFUL_SETS, lambda self: self._changes.of_owners()),
        Handles(PODS, lambda self: self.stale_pod_disruptions.handler()),
    )
    queue_name = "disruption"
    workers = 5
    """Upstream has one worker, so one slow read of a scale delays all budgets."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._clock = context.server_clock
        self._owners = OwnerScales(context)
        self._pods = context.lister(PODS, BY_LABEL, BY_NAMESPACE, BY_CONTROLLER)
        self._changes = BudgetHandlers(
            context,
            context.lister(BUDGETS, BY_SELECTED_LABEL),
            self._pods,
            self._owners,
            self.queue.add,
        )
        self.stale_pod_disruptions = StalePodDisruptions(context)

    def starting(self) -> None:
        """Note that this process begins to lead."""
        self._changes.start_leading()

    def enqueue_all(self) -> Iterator[None]:
        """Add every budget; record events for the pods that have several."""
        yield from super().enqueue_all()
        yield from self._changes.record_shared_pods()

    async def reconcile(self, budget: PodDisruptionBudget) -> Outcome:
        """Count the pods of a budget, and write its status if it has changed.

        If the pods cannot be counted, the status allows no disruption.
        """
        try:
            health = await self._count(budget)
        except _CONFIGURATION_ERRORS as error:
            await self._fail_safe(budget, str(error))
            is_of_kind = isinstance(error, KindNotServed)
            return Done(
                _REQUEUE_AFTER_KIND_NOT_SERVED if is_of_kind else _REQUEUE_AFTER_ERROR
            )
        except _REQUEST_ERRORS as error:
            await self._fail_safe(budget, str(error))
            raise
        self._record_not_deleted(budget, health)
        status = calculated_status(budget, health, self._clock.now())
        try:
            is_gone = not await self._write(budget, status)
        except _REQUEST_ERRORS as error:
            if isinstance(error, APIError) and not isinstance(error, Conflict):
                await self._fail_safe(budget, str(error))
            return Failed(error, health.requeue_after)
        return DONE if is_gone else Done(health.requeue_after)

    async def _count(self, budget: PodDisruptionBudget) -> Health:
        pods = self._select(budget)
        try:
            expected = await self._expected(budget, pods)
            return assess(budget, pods, expected, self._clock.now())
        except (*_CONFIGURATION_ERRORS, *_REQUEST_ERRORS) as error:
            if not says_failure(budget, str(error)):
                message = f"Failed to calculate the number of expected pods: {error}"
                reason = "CalculateExpectedPodCountFailed"
                self._record(budget, WARNING, reason, message)
            raise

    def _select(self, budget: PodDisruptionBudget) -> Sequence[Pod]:
        try:
            pods = pods_of(budget, self._pods)
        except SelectorError as error:
            self._record(budget, WARNING, "NoPods", f"Failed to get pods: {error}")
            raise
        if not pods:
            self._record(budget, NORMAL, "NoPods", "No matching pods found")
        return pods

    async def _expected(self, budget: PodDisruptionBudget, pods: Sequence[Pod]) -> int:
        if not is_limited(budget):
            return 0
        if not needs_scales(budget):
            return len(pods)
        found = await self._owners.expected(pods)
        if found.has_unmanaged:
            text = selector_text(budget.spec.selector)
            message = UNMANAGED_PODS.format(selector=text)
            self._record(budget, WARNING, "UnmanagedPods", message)
        return found.expected

    def _record_not_deleted(self, budget: PodDisruptionBudget, health: Health) -> None:
        namespace = budget.metadata.namespace
        for name in health.not_deleted:
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
        status = failed_status(budget, why, self._clock.now())
        await self._write(budget, status)

    async def _write(
        self, budget: PodDisruptionBudget, status: PodDisruptionBudgetStatus
    ) -> bool:
        """Write the status if it differs; tell whether the budget still exists.

        An eviction may change the status at any time. So the write carries the version
        of the budget, and the API server refuses it after an eviction.
        """
        if status == budget.status:
            return True
        name = budget.metadata.name
        try:
            await self.client.update_for_metadata(
                BUDGETS, replace(budget, status=status), "status"
            )
        except NotFound as error:
            if is_about(error, name):
                return False
            raise
        return True


UNMANAGED_PODS: Final = (
    "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be "
    "unmanaged. As a result, the status of the PDB cannot be calculated correctly, "
    "which may result in undefined behavior. To account for these pods please set "
    '".spec.minAvailable" field of the PDB to an integer value.'
)


def selector_text(selector: LabelSelector | None) -> str:
    """Return a selector as Go prints the struct of metav1.

    ``&LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:…,}``
    """
    if selector is None:
        return "nil"
    labels = sorted((selector.match_labels or {}).items())
    pairs = "".join(f"{key}: {value}," for key, value in labels)
    expressions = "".join(map(_expression_text, selector.match_expressions or ()))
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{pairs}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def _expression_text(expression: LabelSelectorRequirement) -> str:
    values = " ".join(expression.values or ())
    return (
        f"LabelSelectorRequirement{{Key:{expression.key},"
        f"Operator:{expression.operator},Values:[{values}],}},"
    )
