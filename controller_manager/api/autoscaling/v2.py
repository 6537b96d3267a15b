"""autoscaling/v2: horizontal pod autoscalers."""

from controller_manager.api.meta import APIStruct, CompleteObject, Resource
from controller_manager.api.selectors import LabelSelector


class CrossVersionObjectReference(APIStruct, frozen=True):
    """Names an object by its kind; the API group counts, the version may be another."""

    kind: str = ""
    name: str = ""
    api_version: str = ""


class MetricIdentifier(APIStruct, frozen=True):
    """The name of a metric, and the selector of its series."""

    name: str = ""
    selector: LabelSelector | None = None


class MetricTarget(APIStruct, frozen=True):
    """The target of a metric: quantities as text, the utilization in percent."""

    type: str = ""
    value: str | None = None
    average_value: str | None = None
    average_utilization: int | None = None


class ResourceMetricSource(APIStruct, frozen=True):
    """A resource that the pods of the target use, all containers together."""

    name: str = ""
    target: MetricTarget = MetricTarget()


class ContainerResourceMetricSource(APIStruct, frozen=True):
    """A resource that one container of each pod of the target uses."""

    name: str = ""
    target: MetricTarget = MetricTarget()
    container: str = ""


class PodsMetricSource(APIStruct, frozen=True):
    """A custom metric of each pod of the target."""

    metric: MetricIdentifier = MetricIdentifier()
    target: MetricTarget = MetricTarget()


class ObjectMetricSource(APIStruct, frozen=True):
    """A custom metric of one object."""

    described_object: CrossVersionObjectReference = CrossVersionObjectReference()
    target: MetricTarget = MetricTarget()
    metric: MetricIdentifier = MetricIdentifier()


class ExternalMetricSource(APIStruct, frozen=True):
    """A metric that belongs to no object of the cluster."""

    metric: MetricIdentifier = MetricIdentifier()
    target: MetricTarget = MetricTarget()


class MetricSpec(APIStruct, frozen=True):
    """One metric of an autoscaler: the source that its type names."""

    type: str = ""
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    container_resource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None


class HPAScalingPolicy(APIStruct, frozen=True):
    """The pods, or percent of them, by which a scale may change in `period_seconds`."""

    type: str = ""
    value: int = 0
    period_seconds: int = 0


class HPAScalingRules(APIStruct, frozen=True):
    """The rules of one direction; the tolerance is a quantity, 0.1 for 10 %."""

    stabilization_window_seconds: int | None = None
    select_policy: str | None = None
    policies: tuple[HPAScalingPolicy, ...] | None = None
    tolerance: str | None = None


class HorizontalPodAutoscalerBehavior(APIStruct, frozen=True):
    """The rules of both directions."""

    scale_up: HPAScalingRules | None = None
    scale_down: HPAScalingRules | None = None


class HorizontalPodAutoscalerSpec(APIStruct, frozen=True):
    """All of an autoscaler's spec."""

    scale_target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[MetricSpec, ...] | None = None
    behavior: HorizontalPodAutoscalerBehavior | None = None


class MetricValueStatus(APIStruct, frozen=True):
    """The present value of a metric: quantities as text, utilization in percent."""

    value: str | None = None
    average_value: str | None = None
    average_utilization: int | None = None


class ResourceMetricStatus(APIStruct, frozen=True):
    """The present value of a resource metric."""

    name: str = ""
    current: MetricValueStatus = MetricValueStatus()


class ContainerResourceMetricStatus(APIStruct, frozen=True):
    """The present value of a container's resource metric."""

    name: str = ""
    current: MetricValueStatus = MetricValueStatus()
    container: str = ""


class PodsMetricStatus(APIStruct, frozen=True):
    """The present value of a pods metric."""

    metric: MetricIdentifier = MetricIdentifier()
    current: MetricValueStatus = MetricValueStatus()


class ObjectMetricStatus(APIStruct, frozen=True):
    """The present value of an object's metric."""

    metric: MetricIdentifier = MetricIdentifier()
    current: MetricValueStatus = MetricValueStatus()
    described_object: CrossVersionObjectReference = CrossVersionObjectReference()


class ExternalMetricStatus(APIStruct, frozen=True):
    """The present value of an external metric."""

    metric: MetricIdentifier = MetricIdentifier()
    current: MetricValueStatus = MetricValueStatus()


class MetricStatus(APIStruct, frozen=True):
    """The present value of one metric of an autoscaler.

    One without a type stands for a metric that could not be read.
    """

    type: str = ""
    object: ObjectMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    resource: ResourceMetricStatus | None = None
    container_resource: ContainerResourceMetricStatus | None = None
    external: ExternalMetricStatus | None = None


class HorizontalPodAutoscalerCondition(APIStruct, frozen=True):
    """One condition of an autoscaler."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class HorizontalPodAutoscalerStatus(APIStruct, frozen=True):
    """All of an autoscaler's status."""

    observed_generation: int | None = None
    last_scale_time: str | None = None
    current_replicas: int = 0
    desired_replicas: int = 0
    current_metrics: tuple[MetricStatus, ...] | None = None
    conditions: tuple[HorizontalPodAutoscalerCondition, ...] | None = None


class HorizontalPodAutoscaler(CompleteObject, frozen=True):
    """An autoscaler: keeps the metrics of a workload's pods close to their targets."""

    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()


HORIZONTAL_POD_AUTOSCALERS: Resource[HorizontalPodAutoscaler] = Resource(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    HorizontalPodAutoscaler,
)
