"""Metrics of the types Resource and ContainerResource."""

from controller_manager.api.autoscaling.v2 import (
    ContainerResourceMetricSource,
    ContainerResourceMetricStatus,
    MetricStatus,
    MetricTarget,
    ResourceMetricSource,
    ResourceMetricStatus,
)
from controller_manager.controllers.autoscaling.podautoscaler.measures.quantity import (
    average_of,
)
from controller_manager.controllers.autoscaling.podautoscaler.measures.values import (
    Evaluation,
    MetricFailure,
    Question,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.amounts import (
    milli_value,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.compute import (
    Proposal,
    replicas_for_average,
    replicas_for_utilization,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.requests import (
    requested,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.samples import (
    ComputationError,
    PodSample,
    target_pods,
)


async def of_pods(question: Question, source: ResourceMetricSource) -> Evaluation:
    """Evaluate what pods use of a resource, all their containers together."""
    name = source.name
    try:
        proposal = await _proposal(question, source.target, name, "")
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
    question: Question, source: ContainerResourceMetricSource
) -> Evaluation:
    """Evaluate what one container of each pod uses of a resource."""
    name, container = source.name, source.container
    try:
        proposal = await _proposal(question, source.target, name, container)
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
    question: Question, target: MetricTarget, name: str, container: str
) -> Proposal:
    """Return what a target asks for (computeStatusForResourceMetricGeneric)."""
    if target.average_value is None and target.average_utilization is None:
        msg = (
            "invalid resource metric source: neither an average utilization target nor "
            "an average value (usage) target was set"
        )
        raise ComputationError(msg)
    what = "usage" if target.average_value is not None else "utilization"
    try:
        return await _computed(question, target, name, container)
    except ComputationError as error:
        msg = f"failed to get {name} {what}: {error}"
        raise ComputationError(msg) from error


async def _computed(
    question: Question, target: MetricTarget, name: str, container: str
) -> Proposal:
    of, judgement = question.target, question.judgement
    try:
        metrics = await question.sources.resource.of_pods(
            of.namespace, of.selector, name, container
        )
    except ComputationError as error:
        msg = f"unable to get metrics for resource {name}: {error}"
        raise ComputationError(msg) from error
    found = of.find_pods()
    pods = target_pods(found)
    sample = PodSample(pods, metrics, question.now, name)
    if target.average_value is not None:
        wanted = milli_value(target.average_value)
        return replicas_for_average(sample, of.desired, wanted, judgement)
    return replicas_for_utilization(
        sample,
        lambda: requested(found, name, container, pod_level=question.pod_level),
        of.desired,
        target.average_utilization or 0,
        judgement,
    )
