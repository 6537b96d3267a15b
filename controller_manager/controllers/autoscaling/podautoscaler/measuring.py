"""Reads all metrics of an autoscaler (computeReplicasForMetrics of horizontal.go)."""

from collections.abc import Sequence

from msgspec import Struct

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscaler,
    MetricSpec,
    MetricStatus,
)
from controller_manager.clock import Clock
from controller_manager.controllers.autoscaling.podautoscaler.apply import (
    Writer,
)
from controller_manager.controllers.autoscaling.podautoscaler.measures.dispatch import (
    evaluate,
)
from controller_manager.controllers.autoscaling.podautoscaler.measures.values import (
    Evaluation,
    MetricFailure,
    Question,
)
from controller_manager.controllers.autoscaling.podautoscaler.metrics import (
    INTERNAL,
    NONE,
    SPEC,
    AutoscalerMetrics,
    action_of,
)
from controller_manager.controllers.autoscaling.podautoscaler.status import (
    FALSE,
    SCALING_ACTIVE,
    TRUE,
    Draft,
)


class Measurement(Struct, frozen=True):
    """What the metrics of an autoscaler ask for.

    `replicas` is `None` if they do not allow a decision. The `problem` says which of
    them could not be read; others may still allow one.
    """

    statuses: Sequence[MetricStatus] = ()
    replicas: int | None = None
    name: str = ""
    problem: str = ""
    is_spec: bool = False


class Measuring:
    """Reads the metrics of autoscalers, and counts how that went."""

    def __init__(self, metrics: AutoscalerMetrics, clock: Clock) -> None:
        """Take the manager's own metrics."""
        self._metrics = metrics
        self._clock = clock

    async def measure(
        self,
        autoscaler: HorizontalPodAutoscaler,
        question: Question,
        draft: Draft,
        writer: Writer,
    ) -> Measurement:
        """Return what the metrics ask for; the highest number counts.

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
                each = await self._evaluate(question, spec, current)
            except MetricFailure as failure:
                writer.warn(failure.reason, failure.cause)
                failures.append(failure)
                statuses.append(MetricStatus())
            else:
                found.append(each)
                statuses.append(each.status)
        return _judged(_highest(found), failures, statuses, question, draft)

    async def _evaluate(
        self, question: Question, spec: MetricSpec, current: int
    ) -> Evaluation:
        began = self._clock.monotonic()
        action, error = NONE, INTERNAL
        try:
            evaluation = await evaluate(question, spec)
        except MetricFailure as failure:
            error = SPEC if failure.is_spec else INTERNAL
            raise
        else:
            action, error = action_of(current, evaluation.replicas), NONE
            return evaluation
        finally:
            seconds = self._clock.monotonic() - began
            self._metrics.computed(action, error, spec.type, seconds)


def _highest(found: Sequence[Evaluation]) -> Evaluation | None:
    """Return what decides: the highest number, of equal ones the first.

    Of several that ask for no replicas it is the last, as upstream's.
    """
    chosen: Evaluation | None = None
    for each in found:
        if chosen is None or chosen.replicas == 0 or each.replicas > chosen.replicas:
            chosen = each
    return chosen


def _judged(
    chosen: Evaluation | None,
    failures: Sequence[MetricFailure],
    statuses: Sequence[MetricStatus],
    question: Question,
    draft: Draft,
) -> Measurement:
    """Return the measurement, and set the condition ScalingActive."""
    problem, is_spec = "", False
    if failures or chosen is None:
        problem = f"invalid metrics ({len(failures)} invalid out of {len(statuses)})"
    if failures:
        problem += f", first error is: {failures[0]}"
        is_spec = failures[0].is_spec
    asks_for_fewer = chosen is not None and chosen.replicas < question.target.desired
    if chosen is None or (failures and asks_for_fewer):
        if failures:
            message = (
                f"the HPA was unable to compute the replica count: {failures[0].cause}"
            )
            draft.set(SCALING_ACTIVE, FALSE, failures[0].reason, message)
        return Measurement(statuses, problem=problem, is_spec=is_spec)
    message = (
        f"the HPA was able to successfully calculate a replica count from {chosen.name}"
    )
    draft.set(SCALING_ACTIVE, TRUE, "ValidMetricFound", message)
    return Measurement(statuses, chosen.replicas, chosen.name, problem, is_spec)
