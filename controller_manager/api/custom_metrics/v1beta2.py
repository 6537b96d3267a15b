"""custom.metrics.k8s.io/v1beta2: metrics of objects of the cluster.

Version v1beta1 differs only in the name of the window, so both decode to these types.
"""

from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.meta import APIStruct


class MetricValue(APIStruct, frozen=True):
    """The value of a metric for one object: a quantity, or a number as Go takes it.

    The version v1beta2 has the window (seconds) in `window_seconds`, v1beta1 in
    `window`.
    """

    described_object: ObjectReference = ObjectReference()
    timestamp: str | None = None
    window_seconds: int | None = None
    window: int | None = None
    value: str | int | float = "0"


class MetricValueList(APIStruct, frozen=True):
    """The values of a metric for several objects."""

    items: tuple[MetricValue, ...] | None = None
