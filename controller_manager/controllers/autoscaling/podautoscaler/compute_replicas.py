"""Computes the number of replicas that all metrics of an autoscaler ask for.

Upstream: computeReplicasForMetrics in pkg/controller/podautoscaler/horizontal.go.
"""

from collections.abc import Sequence

from msgspec import Struct

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscaler,
    MetricSpec,
    MetricStatus,
)
from controller_manager.clock import Clock
from controller_manager.schedules.quoting import quoted

from . import metric_sources
from .apply import Writer
from .metric_status import Evaluation, EvaluationContext, MetricFailure
from .metrics import INTERNAL, NONE, SPEC, AutoscalerMetrics, action_of
from .status import FALSE, SCALING_ACTIVE, TRUE, Draft


class ComputedReplicas(Struct, frozen=True):
    """The number of replicas that the metrics of an autoscaler ask for.

    `replicas` is `None` if the metrics do not allow a decision. `problem` names the
    metrics that could not be read; the other metrics may still allow a decision.
    """

    statuses: Sequence[MetricStatus] = ()
    replicas: int | None = None
    name: str = ""
    problem: str = ""
    is_spec: bool = False


class ReplicaComputation:
    """Evaluates the metrics of autoscalers, and counts the evaluations."""

    def __init__(self, metrics: AutoscalerMetrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock

    async def compute(
        self,
        autoscaler: HorizontalPodAutoscaler,
        context: EvaluationContext,
        draft: Draft,
        writer: Writer,
    ) -> ComputedReplicas:
        """Return the highest number of replicas that a metric asks for.

        A metric that cannot be read prevents fewer replicas, but not more. Raises
        APIStuck if an API does not answer.
        """
        specs = autoscaler.spec.metrics or ()
        current = autoscaler.status.current_replicas
        found: list[Evaluation] = []
        statuses: list[MetricStatus] = []
        failures: list[MetricFailure] = []
        for spec in specs:
            try:
                each = await self._evaluate(context, spec, current)
            except MetricFailure as failure:
                writer.warn(failure.reason, failure.cause)
                failures.append(failure)
                statuses.append(MetricStatus())
            else:
                found.append(each)
                statuses.append(each.status)
        return _computed(_highest(found), failures, statuses, context, draft)

    async def _evaluate(
        self, context: EvaluationContext, spec: MetricSpec, current: int
    ) -> Evaluation:
        began = self._clock.monotonic()
        action, error = NONE, INTERNAL
        try:
            evaluation = await evaluate(context, spec)
        except MetricFailure as failure:
            error = SPEC if failure.is_spec else INTERNAL
            raise
        else:
            action, error = action_of(current, evaluation.replicas), NONE
            return evaluation
        finally:
            seconds = self._clock.monotonic() - began
            self._metrics.computed(action, error, spec.type, seconds)


async def evaluate(context: EvaluationContext, spec: MetricSpec) -> Evaluation:
    """Return the number of replicas that one metric asks for.

    Raises MetricFailure, and APIStuck if the API of the metric does not answer.
    """
    match spec.type:
        case "Resource" if spec.resource is not None:
            return await metric_sources.of_resource(context, spec.resource)
        case "ContainerResource" if spec.container_resource is not None:
            return await metric_sources.of_containers(context, spec.container_resource)
        case "Pods" if spec.pods is not None:
            return await metric_sources.of_pods(context, spec.pods)
        case "Object" if spec.object is not None:
            return await metric_sources.of_object(context, spec.object)
        case "External" if spec.external is not None:
            return await metric_sources.of_external(context, spec.external)
    why = f"unknown metric source type {quoted(spec.type)}"
    raise MetricFailure(why, "InvalidMetricSourceType", why, is_spec=True)


def _highest(found: Sequence[Evaluation]) -> Evaluation | None:
    """Return the evaluation with the highest number; of equal ones the first.

    Of several evaluations with 0 replicas it is the last one, as upstream's.
    """
    chosen: Evaluation | None = None
    for each in found:
        if chosen is None or chosen.replicas == 0 or each.replicas > chosen.replicas:
            chosen = each
    return chosen


def _computed(
    chosen: Evaluation | None,
    failures: Sequence[MetricFailure],
    statuses: Sequence[MetricStatus],
    context: EvaluationContext,
    draft: Draft,
) -> ComputedReplicas:
    """Return the result of all evaluations, and set the condition ScalingActive."""
    problem, is_spec = "", False
    if failures or chosen is None:
        problem = f"invalid metrics ({len(failures)} invalid out of {len(statuses)})"
    if failures:
        problem += f", first error is: {failures[0]}"
        is_spec = failures[0].is_spec
    asks_for_fewer = chosen is not None and chosen.replicas < context.target.desired
    if chosen is None or (failures and asks_for_fewer):
        if failures:
            message = (
                f"the HPA was unable to compute the replica count: {failures[0].cause}"
            )
            draft.set(SCALING_ACTIVE, FALSE, failures[0].reason, message)
        return ComputedReplicas(statuses, problem=problem, is_spec=is_spec)
    message = (
        f"the HPA was able to successfully calculate a replica count from {chosen.name}"
    )
    draft.set(SCALING_ACTIVE, TRUE, "ValidMetricFound", message)
    return ComputedReplicas(statuses, chosen.replicas, chosen.name, problem, is_spec)
