"""Evaluates one metric, by the type of its source."""

from collections.abc import Awaitable, Callable
from functools import partial

from controller_manager.api.autoscaling.v2 import (
    ContainerResourceMetricSource,
    ContainerResourceMetricStatus,
    ExternalMetricSource,
    ExternalMetricStatus,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
    ObjectMetricSource,
    ObjectMetricStatus,
    PodsMetricSource,
    PodsMetricStatus,
    ResourceMetricSource,
    ResourceMetricStatus,
)
from controller_manager.api.selectors import SelectorError, compile_selector

from . import replica_calculator
from .metric_status import (
    Evaluation,
    EvaluationContext,
    MetricFailure,
    average_of,
    go_selector,
    query_of,
    whole_of,
)
from .pods import ComputationError, PodSample, milli_value, requested, target_pods


async def of_resource(
    context: EvaluationContext, source: ResourceMetricSource
) -> Evaluation:
    """Evaluate the usage of a resource by pods, with all their containers."""
    name = source.name
    try:
        proposal = await _proposal(context, source.target, name, "")
    except ComputationError as error:
        message = f"failed to get {name} resource metric value: {error}"
        raise MetricFailure(str(error), "FailedGetResourceMetric", message) from error
    status = MetricStatus(
        type="Resource",
        resource=ResourceMetricStatus(name=name, current=average_of(proposal, name)),
    )
    return Evaluation(
        proposal.replicas, _named(source.target, name, "resource"), status
    )


async def of_containers(
    context: EvaluationContext, source: ContainerResourceMetricSource
) -> Evaluation:
    """Evaluate the usage of a resource by one container of each pod."""
    name, container = source.name, source.container
    try:
        proposal = await _proposal(context, source.target, name, container)
    except ComputationError as error:
        reason = "FailedGetContainerResourceMetric"
        message = f"failed to get {container} container metric value: {error}"
        raise MetricFailure(str(error), reason, message) from error
    status = MetricStatus(
        type="ContainerResource",
        container_resource=ContainerResourceMetricStatus(
            name=name, container=container, current=average_of(proposal, name)
        ),
    )
    named = _named(source.target, name, "container resource")
    return Evaluation(proposal.replicas, named, status)


def _named(target: MetricTarget, name: str, what: str) -> str:
    if target.average_value is not None:
        return f"{name} resource"
    return f"{name} {what} utilization (percentage of request)"


async def _proposal(
    context: EvaluationContext, target: MetricTarget, name: str, container: str
) -> replica_calculator.Proposal:
    """Return the replicas for a target (computeStatusForResourceMetricGeneric)."""
    if target.average_value is None and target.average_utilization is None:
        msg = (
            "invalid resource metric source: neither an average utilization target nor "
            "an average value (usage) target was set"
        )
        raise ComputationError(msg)
    what = "usage" if target.average_value is not None else "utilization"
    try:
        return await _computed(context, target, name, container)
    except ComputationError as error:
        msg = f"failed to get {name} {what}: {error}"
        raise ComputationError(msg) from error


async def _computed(
    context: EvaluationContext, target: MetricTarget, name: str, container: str
) -> replica_calculator.Proposal:
    of, thresholds = context.target, context.thresholds
    try:
        metrics = await context.metrics_client.resource.of_pods(
            of.namespace, of.selector, name, container
        )
    except ComputationError as error:
        msg = f"unable to get metrics for resource {name}: {error}"
        raise ComputationError(msg) from error
    found = of.find_pods()
    pods = target_pods(found)
    sample = PodSample(pods, metrics, context.now, name)
    if target.average_value is not None:
        wanted = milli_value(target.average_value)
        return replica_calculator.replicas_for_average(
            sample, of.desired, wanted, thresholds
        )
    return replica_calculator.replicas_for_utilization(
        sample,
        lambda: requested(found, name, container, pod_level=context.pod_level),
        of.desired,
        target.average_utilization or 0,
        thresholds,
    )


async def of_pods(context: EvaluationContext, source: PodsMetricSource) -> Evaluation:
    """Evaluate a custom metric of each pod."""
    try:
        return await _average(context, source)
    except (ComputationError, SelectorError) as error:
        message = f"failed to get pods metric value: {error}"
        raise MetricFailure(str(error), "FailedGetPodsMetric", message) from error


async def _average(context: EvaluationContext, source: PodsMetricSource) -> Evaluation:
    of, metric, wanted = context.target, source.metric, source.target.average_value
    if wanted is None:
        msg = "invalid pods metric source: no average value target was set"
        raise ComputationError(msg)
    compile_selector(metric.selector)
    try:
        metrics = await context.metrics_client.custom.of_pods(
            of.namespace, of.selector, metric.name, query_of(metric.selector)
        )
    except ComputationError as error:
        msg = f"unable to get metric {metric.name}: {error}"
        raise ComputationError(msg) from error
    proposal = replica_calculator.replicas_for_average(
        PodSample(target_pods(of.find_pods()), metrics, context.now),
        of.desired,
        milli_value(wanted),
        context.thresholds,
    )
    status = PodsMetricStatus(metric=metric, current=average_of(proposal))
    return Evaluation(
        proposal.replicas,
        f"pods metric {metric.name}",
        MetricStatus(type="Pods", pods=status),
    )


async def of_object(
    context: EvaluationContext, source: ObjectMetricSource
) -> Evaluation:
    """Evaluate a custom metric of one object, as a value or as an average."""
    metric, target = source.metric, source.target
    average = target.average_value if target.type == "AverageValue" else None
    value = target.value if target.type == "Value" else None
    before = "failed to get object metric value: "
    try:
        compile_selector(metric.selector)
        if average is not None:
            before += f"failed to get {metric.name} object metric: "
        read = partial(_read_object, context, source)
        proposal, current = await _of_total(context, read, average, value, "object")
    except (ComputationError, SelectorError) as error:
        message = f"{before}{error}"
        raise MetricFailure(str(error), "FailedGetObjectMetric", message) from error
    reference = source.described_object
    status = ObjectMetricStatus(
        described_object=reference, metric=metric, current=current
    )
    return Evaluation(
        proposal.replicas,
        f"{reference.kind} metric {metric.name}",
        MetricStatus(type="Object", object=status),
    )


async def of_external(
    context: EvaluationContext, source: ExternalMetricSource
) -> Evaluation:
    """Evaluate a metric of no object of the cluster, as an average or as a value."""
    metric, target = source.metric, source.target
    before = f"failed to get {metric.name} external metric value: "
    if target.average_value is not None:
        before += f"failed to get {metric.name} external metric: "
    elif target.value is not None:
        before += f"failed to get external metric {metric.name}: "
    read = partial(_read_external, context, source)
    try:
        proposal, current = await _of_total(
            context, read, target.average_value, target.value, "external"
        )
    except (ComputationError, SelectorError) as error:
        message = f"{before}{error}"
        raise MetricFailure(str(error), "FailedGetExternalMetric", message) from error
    status = ExternalMetricStatus(metric=metric, current=current)
    return Evaluation(
        proposal.replicas,
        f"external metric {metric.name}({go_selector(metric.selector)})",
        MetricStatus(type="External", external=status),
    )


async def _of_total(
    context: EvaluationContext,
    read: Callable[[], Awaitable[int]],
    average: str | None,
    value: str | None,
    source: str,
) -> tuple[replica_calculator.Proposal, MetricValueStatus]:
    """Return the replicas for a metric that all pods share, and its present value.

    `read` returns the metric in thousandths. The target is the `average` for one pod,
    or the `value` for all. `source` is the type of the metric, for the error.
    """
    of, tolerances = context.target, context.thresholds.tolerances
    if average is not None:
        proposal = replica_calculator.replicas_for_share(
            await read(), of.desired, of.observed, milli_value(average), tolerances
        )
        return proposal, average_of(proposal)
    if value is not None:
        usage = await read()
        proposal = replica_calculator.replicas_for_value(
            target_pods(of.find_pods()),
            usage,
            of.desired,
            milli_value(value),
            tolerances,
        )
        return proposal, whole_of(proposal)
    msg = (
        f"invalid {source} metric source: neither a value target nor an average value "
        "target was set"
    )
    raise ComputationError(msg)


async def _read_object(context: EvaluationContext, source: ObjectMetricSource) -> int:
    namespace, metric = context.target.namespace, source.metric
    try:
        return await context.metrics_client.custom.of_object(
            namespace, source.described_object, metric.name, query_of(metric.selector)
        )
    except ComputationError as error:
        kind, name = source.described_object.kind, source.described_object.name
        msg = (
            f"unable to get metric {metric.name} on {kind} {namespace}/{name}: {error}"
        )
        raise ComputationError(msg) from error


async def _read_external(
    context: EvaluationContext, source: ExternalMetricSource
) -> int:
    """Return the sum of the series that the selector of a metric selects."""
    namespace, metric = context.target.namespace, source.metric
    compile_selector(metric.selector)
    try:
        values = await context.metrics_client.external.values(
            namespace, metric.name, query_of(metric.selector)
        )
    except ComputationError as error:
        full_name = f"{namespace}/{metric.name}/{go_selector(metric.selector)}"
        msg = f"unable to get external metric {full_name}: {error}"
        raise ComputationError(msg) from error
    return replica_calculator.total(values)
