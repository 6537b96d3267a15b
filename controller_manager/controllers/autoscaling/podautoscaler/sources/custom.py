"""Metrics of objects of the cluster, from custom.metrics.k8s.io.

Upstream: k8s.io/metrics/pkg/client/custom_metrics.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from controller_manager.api.autoscaling.v2 import CrossVersionObjectReference
from controller_manager.api.custom_metrics.v1beta2 import MetricValue, MetricValueList
from controller_manager.client.errors import APIError, ProtocolError, TransportError
from controller_manager.client.resource_mapper import KindNotServed, ResourceMapper
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
    versions,
)

GROUP: Final = "custom.metrics.k8s.io"

VERSIONS: Final = ("v1beta2", "v1beta1")
"""The versions that this client reads."""

_EVERY_OBJECT: Final = "*"
_WINDOW: Final = 60
"""Seconds of a window that the API does not tell (metricServerDefaultMetricWindow)."""


class CustomMetrics:
    """Reads metrics of pods and of single objects."""

    def __init__(
        self,
        api: reading.MetricsAPI,
        resources: ResourceMapper,
        version: versions.ServedVersion,
    ) -> None:
        """Take the API, the mapper of kinds, and the version that is served."""
        self.api = api
        self._resources = resources
        self._version = version

    async def of_pods(
        self, namespace: str, selector: str, metric: str, metric_selector: str
    ) -> Mapping[str, PodMetric]:
        """Return a metric of each pod that a selector selects, by its name.

        Raises ComputationError, and what `MetricsAPI.read` raises.
        """
        path = ("namespaces", namespace, "pods", _EVERY_OBJECT, metric)
        subject = f"pods.{GROUP} {_EVERY_OBJECT}"
        found = await self._read(path, subject, selector, metric_selector)
        if not found:
            msg = "no metrics returned from custom metrics API"
            raise ComputationError(msg)
        with reading.checked("custom"):
            return {
                each.described_object.name: _pod_metric(each)
                async for each in pacing.paced(found)
            }

    async def of_object(
        self,
        namespace: str,
        reference: CrossVersionObjectReference,
        metric: str,
        metric_selector: str,
    ) -> int:
        """Return a metric of an object of the namespace, in thousandths.

        A reference to a namespace always means the one that the autoscaler is in.
        Raises ComputationError, and what `MetricsAPI.read` raises.
        """
        try:
            path, subject = await self._path_of(namespace, reference, metric)
        except (KindNotServed, APIError, ProtocolError, TransportError) as error:
            kind = ".".join(filter(None, (reference.kind, _group(reference))))
            why = f"unable to map kind {kind} to resource: {error}"
            raise _failed(why) from error
        found = await self._read(path, subject, "", metric_selector)
        if len(found) != 1:
            why = (
                f"the custom metrics API server returned {len(found)} results when we "
                "asked for exactly one"
            )
            raise _failed(why)
        with reading.checked("custom"):
            return milli_value(str(found[0].value))

    async def _path_of(
        self, namespace: str, reference: CrossVersionObjectReference, metric: str
    ) -> tuple[tuple[str, ...], str]:
        """Return the path of an object's metric, and what error messages call it."""
        group = _group(reference)
        if (group, reference.kind) == ("", "Namespace"):
            return ("namespaces", namespace, "metrics", metric), f"metrics.{GROUP}"
        resource = await self._resources.resource_of(group, reference.kind)
        name = resource.group_resource
        path = ("namespaces", namespace, name, reference.name, metric)
        return path, f"{name}.{GROUP} {reference.name}"

    async def _read(
        self,
        path: tuple[str, ...],
        subject: str,
        selector: str,
        metric_selector: str,
    ) -> tuple[MetricValue, ...]:
        try:
            version = await self._version.get()
            answer = await self.api.read(
                (version, *path),
                MetricValueList,
                subject,
                labelSelector=selector,
                metricLabelSelector=metric_selector,
            )
        except ComputationError as error:
            raise _failed(str(error)) from error
        return answer.items or ()


def _group(reference: CrossVersionObjectReference) -> str:
    group, slash, _ = reference.api_version.partition("/")
    return group if slash else ""


def _failed(why: str) -> ComputationError:
    return ComputationError(f"unable to fetch metrics from custom metrics API: {why}")


def _pod_metric(value: MetricValue) -> PodMetric:
    given = (value.window_seconds, value.window, _WINDOW)
    seconds = next(each for each in given if each is not None)
    timestamp = reading.measured_at(value.timestamp)
    return PodMetric(
        milli_value(str(value.value)), timestamp, timedelta(seconds=seconds)
    )
