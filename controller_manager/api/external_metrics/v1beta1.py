"""external.metrics.k8s.io/v1beta1: metrics that belong to no object of the cluster."""

from controller_manager.api.meta import APIStruct


class ExternalMetricValue(APIStruct, frozen=True):
    """The value of one series of a metric: a quantity, or a number as Go takes it."""

    metric_name: str = ""
    metric_labels: dict[str, str] | None = None
    timestamp: str | None = None
    value: str | int | float = "0"


class ExternalMetricValueList(APIStruct, frozen=True):
    """The values of several series."""

    items: tuple[ExternalMetricValue, ...] | None = None
