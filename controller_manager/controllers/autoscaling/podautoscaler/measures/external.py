"""Metrics of the type External."""

from controller_manager.api.autoscaling.v2 import (
    ExternalMetricSource,
    ExternalMetricStatus,
    MetricStatus,
)
from controller_manager.api.selectors import SelectorError, compile_selector
from controller_manager.controllers.autoscaling.podautoscaler.measures.quantity import (
    average_of,
    whole_of,
)
from controller_manager.controllers.autoscaling.podautoscaler.measures.values import (
    Evaluation,
    MetricFailure,
    Question,
)
from controller_manager.controllers.autoscaling.podautoscaler.measures.wording import (
    described,
    query_of,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.amounts import (
    milli_value,
    total,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.compute import (
    replicas_for_share,
    replicas_for_value,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.samples import (
    ComputationError,
    target_pods,
)


async def of_outside(question: Question, source: ExternalMetricSource) -> Evaluation:
    """Evaluate a metric of nothing in the cluster, as an average or as a value."""
    metric, target = source.metric.name, source.target
    before = f"failed to get {metric} external metric value: "
    try:
        if target.average_value is not None:
            before += f"failed to get {metric} external metric: "
            return await _share(question, source, target.average_value)
        if target.value is not None:
            before += f"failed to get external metric {metric}: "
            return await _value(question, source, target.value)
    except (ComputationError, SelectorError) as error:
        why, message = str(error), f"{before}{error}"
        raise MetricFailure(why, "FailedGetExternalMetric", message) from error
    why = (
        "invalid external metric source: neither a value target nor an average value "
        "target was set"
    )
    raise MetricFailure(why, "FailedGetExternalMetric", f"{before}{why}")


async def _share(
    question: Question, source: ExternalMetricSource, wanted: str
) -> Evaluation:
    proposal = replicas_for_share(
        await _usage(question, source),
        question.target.observed,
        milli_value(wanted),
        question.judgement.tolerances,
    )
    status = ExternalMetricStatus(metric=source.metric, current=average_of(proposal))
    return _evaluation(source, proposal.replicas, status)


async def _value(
    question: Question, source: ExternalMetricSource, wanted: str
) -> Evaluation:
    of, usage = question.target, await _usage(question, source)
    proposal = replicas_for_value(
        target_pods(of.find_pods()),
        usage,
        of.desired,
        milli_value(wanted),
        question.judgement.tolerances,
    )
    status = ExternalMetricStatus(metric=source.metric, current=whole_of(proposal))
    return _evaluation(source, proposal.replicas, status)


def _evaluation(
    source: ExternalMetricSource, replicas: int, status: ExternalMetricStatus
) -> Evaluation:
    named = f"external metric {source.metric.name}({described(source.metric.selector)})"
    return Evaluation(replicas, named, MetricStatus(type="External", external=status))


async def _usage(question: Question, source: ExternalMetricSource) -> int:
    """Return the sum of the series that the selector of a metric selects."""
    namespace, metric = question.target.namespace, source.metric
    compile_selector(metric.selector)
    try:
        values = await question.sources.external.values(
            namespace, metric.name, query_of(metric.selector)
        )
    except ComputationError as error:
        what = f"{namespace}/{metric.name}/{described(metric.selector)}"
        msg = f"unable to get external metric {what}: {error}"
        raise ComputationError(msg) from error
    return total(values)
