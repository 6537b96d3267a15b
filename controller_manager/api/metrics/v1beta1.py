"""metrics.k8s.io/v1beta1: the resources that pods use, as a metrics server says."""

from controller_manager.api.meta import APIStruct, PartialMetadata


class ContainerMetrics(APIStruct, frozen=True):
    """What one container uses: quantities, or numbers, by the name of the resource."""

    name: str = ""
    usage: dict[str, str | int | float] | None = None


class PodMetrics(APIStruct, frozen=True):
    """What the containers of a pod used during the `window` that ended at `timestamp`.

    The window is a duration in Go's form, for example ``30s``.
    """

    metadata: PartialMetadata = PartialMetadata()
    timestamp: str | None = None
    window: str = ""
    containers: tuple[ContainerMetrics, ...] | None = None


class PodMetricsList(APIStruct, frozen=True):
    """The metrics of several pods."""

    items: tuple[PodMetrics, ...] | None = None
