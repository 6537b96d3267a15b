"""What pods use of a resource, from metrics.k8s.io (GetResourceMetric)."""

from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Final

from controller_manager.api.metrics.v1beta1 import PodMetrics, PodMetricsList
from controller_manager.controllers.autoscaling.podautoscaler.replicas.amounts import (
    milli_value,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.samples import (
    ComputationError,
    PodMetric,
)
from controller_manager.controllers.autoscaling.podautoscaler.sources import (
    pacing,
    reading,
)
from controller_manager.options.durations import parse_duration

GROUP: Final = "metrics.k8s.io"

_SUBJECT: Final = f"pods.{GROUP}"


class ResourceMetrics:
    """Reads what pods use of resources such as cpu and memory."""

    def __init__(self, api: reading.MetricsAPI) -> None:
        """Take the API."""
        self.api = api

    async def of_pods(
        self, namespace: str, selector: str, resource: str, container: str = ""
    ) -> Mapping[str, PodMetric]:
        """Return what each pod uses that a selector selects, by its name.

        With a `container`, only what that container uses. A pod whose metrics lack the
        resource, for one of its containers, is left out. Raises ComputationError, and
        what `MetricsAPI.read` raises.
        """
        path = ("v1beta1", "namespaces", namespace, "pods")
        try:
            answer = await self.api.read(
                path, PodMetricsList, _SUBJECT, labelSelector=selector
            )
        except ComputationError as error:
            msg = f"unable to fetch metrics from resource metrics API: {error}"
            raise ComputationError(msg) from error
        if not answer.items:
            msg = "no metrics returned from resource metrics API"
            raise ComputationError(msg)
        with reading.checked("resource"):
            return {
                each.metadata.name: _metric(each, amount)
                async for each in pacing.paced(answer.items)
                if (amount := _usage(each, resource, container)) is not None
            }


def _usage(pod: PodMetrics, resource: str, container: str) -> int | None:
    """Return what a pod uses in thousandths, `None` if that is not known."""
    containers = pod.containers or ()
    if container:
        containers = tuple(each for each in containers if each.name == container)
    usages = [(each.usage or {}).get(resource) for each in containers]
    known = [each for each in usages if each is not None]
    if not usages or len(known) < len(usages):
        return None
    return sum(milli_value(str(each)) for each in known)


@lru_cache(maxsize=64)
def _window(text: str) -> timedelta:
    """Return the length of a window; all pods have the same one."""
    return timedelta(seconds=parse_duration(text) if text else 0.0)


def _metric(pod: PodMetrics, amount: int) -> PodMetric:
    window = _window(pod.window)
    return PodMetric(amount, reading.measured_at(pod.timestamp), window)
