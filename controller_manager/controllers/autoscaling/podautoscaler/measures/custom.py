"""Metrics of the types Pods and Object."""

from controller_manager.api.autoscaling.v2 import (
    MetricStatus,
    ObjectMetricSource,
    ObjectMetricStatus,
    PodsMetricSource,
    PodsMetricStatus,
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
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.compute import (
    replicas_for_average,
    replicas_for_share,
    replicas_for_value,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.samples import (
    ComputationError,
    PodSample,
    target_pods,
)


async def of_pods(question: Question, source: PodsMetricSource) -> Evaluation:
    """Evaluate a custom metric of each pod."""
    try:
        return await _average(question, source)
    except (ComputationError, SelectorError) as error:
        message = f"failed to get pods metric value: {error}"
        raise MetricFailure(str(error), "FailedGetPodsMetric", message) from error


async def _average(question: Question, source: PodsMetricSource) -> Evaluation:
    of, metric, wanted = question.target, source.metric, source.target.average_value
    if wanted is None:
        msg = "invalid pods metric source: no average value target was set"
        raise ComputationError(msg)
    compile_selector(metric.selector)
    try:
        metrics = await question.sources.custom.of_pods(
            of.namespace, of.selector, metric.name, query_of(metric.selector)
        )
    except ComputationError as error:
        msg = f"unable to get metric {metric.name}: {error}"
        raise ComputationError(msg) from error
    proposal = replicas_for_average(
        PodSample(target_pods(of.find_pods()), metrics, question.now),
        of.desired,
        milli_value(wanted),
        question.judgement,
    )
    status = PodsMetricStatus(metric=metric, current=average_of(proposal))
    return Evaluation(
        proposal.replicas,
        f"pods metric {metric.name}",
        MetricStatus(type="Pods", pods=status),
    )


async def of_object(question: Question, source: ObjectMetricSource) -> Evaluation:
    """Evaluate a custom metric of one object, as a value or as an average."""
    before = "failed to get object metric value: "
    try:
        compile_selector(source.metric.selector)
        target = source.target
        if target.type == "AverageValue" and target.average_value is not None:
            before += f"failed to get {source.metric.name} object metric: "
            return await _share(question, source, target.average_value)
        if target.type == "Value" and target.value is not None:
            return await _value(question, source, target.value)
    except (ComputationError, SelectorError) as error:
        why, message = str(error), f"{before}{error}"
        raise MetricFailure(why, "FailedGetObjectMetric", message) from error
    why = (
        "invalid object metric source: neither a value target nor an average value "
        "target was set"
    )
    raise MetricFailure(why, "FailedGetObjectMetric", f"{before}{why}")


async def _value(
    question: Question, source: ObjectMetricSource, wanted: str
) -> Evaluation:
    of, usage = question.target, await _usage(question, source)
    proposal = replicas_for_value(
        target_pods(of.find_pods()),
        usage,
        of.desired,
        milli_value(wanted),
        question.judgement.tolerances,
    )
    status = ObjectMetricStatus(
        described_object=source.described_object,
        metric=source.metric,
        current=whole_of(proposal),
    )
    return Evaluation(
        proposal.replicas,
        f"{source.described_object.kind} metric {source.metric.name}",
        MetricStatus(type="Object", object=status),
    )


async def _share(
    question: Question, source: ObjectMetricSource, wanted: str
) -> Evaluation:
    proposal = replicas_for_share(
        await _usage(question, source),
        question.target.observed,
        milli_value(wanted),
        question.judgement.tolerances,
    )
    status = ObjectMetricStatus(
        described_object=source.described_object,
        metric=source.metric,
        current=average_of(proposal),
    )
    # Upstream calls it so, too.
    named = f"external metric {source.metric.name}({described(source.metric.selector)})"
    return Evaluation(
        proposal.replicas, named, MetricStatus(type="Object", object=status)
    )


async def _usage(question: Question, source: ObjectMetricSource) -> int:
    namespace, metric = question.target.namespace, source.metric
    try:
        return await question.sources.custom.of_object(
            namespace, source.described_object, metric.name, query_of(metric.selector)
        )
    except ComputationError as error:
        kind, name = source.described_object.kind, source.described_object.name
        msg = (
            f"unable to get metric {metric.name} on {kind} {namespace}/{name}: {error}"
        )
        raise ComputationError(msg) from error
