"""metrics.k8s.io/v1beta1: the resources that pods use, as a metrics server says."""

from controller_manager.api.meta import APIStruct, PartialMetadata


class ContainerMetrics(APIStruct, frozen=True):
    """The usage of one container: quantities or numbers, by the resource's name."""

    name: str = ""
    usage: dict[str, str | int | float] | None = None


class PodMetrics(APIStruct, frozen=True):
    """The usage of a pod's containers in the `window` that ended at `timestamp`.

    The window is a duration in Go's form, for example ``30s``.
    """

    metadata: PartialMetadata = PartialMetadata()
    timestamp: str | None = None
    window: str = ""
    containers: tuple[ContainerMetrics, ...] | None = None


class PodMetricsList(APIStruct, frozen=True):
    """The metrics of several pods."""

    items: tuple[PodMetrics, ...] | None = None
