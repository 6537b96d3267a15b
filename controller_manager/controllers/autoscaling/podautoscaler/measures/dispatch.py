"""Evaluates one metric, by its type."""

from controller_manager.api.autoscaling.v2 import MetricSpec
from controller_manager.controllers.autoscaling.podautoscaler.measures import custom
from controller_manager.controllers.autoscaling.podautoscaler.measures import (
    external as outside,
)
from controller_manager.controllers.autoscaling.podautoscaler.measures import (
    resource as usage,
)
from controller_manager.controllers.autoscaling.podautoscaler.measures.values import (
    Evaluation,
    MetricFailure,
    Question,
)
from controller_manager.controllers.autoscaling.podautoscaler.measures.wording import (
    quoted,
)


async def evaluate(question: Question, spec: MetricSpec) -> Evaluation:
    """Return what a metric asks for.

    Raises MetricFailure, and APIStuck if its API does not answer.
    """
    match spec.type:
        case "Resource" if spec.resource is not None:
            return await usage.of_pods(question, spec.resource)
        case "ContainerResource" if spec.container_resource is not None:
            return await usage.of_containers(question, spec.container_resource)
        case "Pods" if spec.pods is not None:
            return await custom.of_pods(question, spec.pods)
        case "Object" if spec.object is not None:
            return await custom.of_object(question, spec.object)
        case "External" if spec.external is not None:
            return await outside.of_outside(question, spec.external)
    why = f"unknown metric source type {quoted(spec.type)}"
    raise MetricFailure(why, "InvalidMetricSourceType", why, is_spec=True)
