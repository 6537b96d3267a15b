"""Reads the three metrics APIs: resource, custom and external metrics.

Upstream: pkg/controller/podautoscaler/metrics/client.go and
k8s.io/metrics/pkg/client/custom_metrics. Each API has its own slots, so that an API
that answers slowly does not delay autoscalers that need another one.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from controller_manager.api.autoscaling.v2 import (
    CrossVersionObjectReference,
    MetricSpec,
)
from controller_manager.api.custom_metrics.v1beta2 import MetricValue, MetricValueList
from controller_manager.api.external_metrics.v1beta1 import ExternalMetricValueList
from controller_manager.api.metrics.v1beta1 import PodMetrics, PodMetricsList
from controller_manager.api.scalars import parse_time
from controller_manager.client.discovery.resource_mapper import (
    KindNotServed,
    ResourceMapper,
)
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import (
    APIError,
    ProtocolError,
    TransportError,
)
from controller_manager.clock import Clock
from controller_manager.options.durations import parse_duration

from .metrics_api import MetricsAPI, ServedVersion
from .pods import ComputationError, PodMetric, milli_value

_RESOURCE: Final = "resource"
_CUSTOM: Final = "custom"
_EXTERNAL: Final = "external"
"""The names of the APIs in messages."""

RESOURCE_GROUP: Final = "metrics.k8s.io"
CUSTOM_GROUP: Final = "custom.metrics.k8s.io"
EXTERNAL_GROUP: Final = "external.metrics.k8s.io"

CUSTOM_VERSIONS: Final = ("v1beta2", "v1beta1")
"""The versions of the custom metrics API that this client reads."""

SHARES: Final = 4
"""The parts of the requests in flight: one for each API, and one for all others."""

_EVERY_OBJECT: Final = "*"
_WINDOW: Final = 60
"""Seconds of a window that the API does not tell (metricServerDefaultMetricWindow)."""

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class MetricsClient:
    """Reads metrics of pods and objects, by the API that serves them.

    Its methods raise ComputationError in upstream's words if there is no answer or no
    metric, and APIStuck (see `MetricsAPI.read`).
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        resources: ResourceMapper,
        *,
        concurrency: int,
        sync_period: float,
    ) -> None:
        """Take the controller's client, and the sync period in seconds.

        Each API gets at most `concurrency` requests at a time. The client of
        the controller lets `SHARES` times as many through, so some are left for others.
        """
        self.resource = MetricsAPI(client, clock, RESOURCE_GROUP, concurrency)
        self.custom = MetricsAPI(client, clock, CUSTOM_GROUP, concurrency)
        self.external = MetricsAPI(client, clock, EXTERNAL_GROUP, concurrency)
        self._resources = resources
        self._version = ServedVersion(
            client, clock, CUSTOM_GROUP, CUSTOM_VERSIONS, sync_period
        )

    @asynccontextmanager
    async def slots(self, metrics: Iterable[MetricSpec]) -> AsyncIterator[None]:
        """Keep a slot of each API that these metrics need while entered.

        A sync takes the slots before it reads the scale, which would be read twice
        otherwise. Slots are taken in the order of the names of the APIs, so two syncs
        never wait for each other. Raises APIStuck.
        """
        needed = {each.group: each for each in self._apis(metrics)}
        async with AsyncExitStack() as stack:
            for group in sorted(needed):
                await stack.enter_async_context(needed[group].slot())
            yield

    def busy(self, metrics: Iterable[MetricSpec]) -> MetricsAPI | None:
        """Return an API that these metrics need and that cannot be asked now."""
        return next((each for each in self._apis(metrics) if each.is_busy), None)

    def _apis(self, metrics: Iterable[MetricSpec]) -> Iterator[MetricsAPI]:
        for each in metrics:
            match each.type:
                case "Resource" | "ContainerResource":
                    yield self.resource
                case "Pods" | "Object":
                    yield self.custom
                case "External":
                    yield self.external

    async def resource_metric(
        self, namespace: str, selector: str, resource: str, container: str = ""
    ) -> Mapping[str, PodMetric]:
        """Return the usage of each pod that a selector selects, by the pod's name.

        With a `container`, it is the usage of only that container. A pod whose metrics
        lack the resource, for one of its containers, is left out.
        """
        path = ("v1beta1", "namespaces", namespace, "pods")
        subject = f"pods.{RESOURCE_GROUP}"
        with _fetching(_RESOURCE):
            answer = await self.resource.read(
                path, PodMetricsList, subject, labelSelector=selector
            )
        if not answer.items:
            raise _no_metrics(_RESOURCE)
        with _fetching(_RESOURCE):
            return {
                each.metadata.name: _usage_metric(each, amount)
                for each in answer.items
                if (amount := _usage(each, resource, container)) is not None
            }

    async def raw_metric(
        self, namespace: str, selector: str, metric: str, metric_selector: str
    ) -> Mapping[str, PodMetric]:
        """Return a custom metric of each pod that a selector selects, by its name."""
        path = ("namespaces", namespace, "pods", _EVERY_OBJECT, metric)
        subject = f"pods.{CUSTOM_GROUP} {_EVERY_OBJECT}"
        found = await self._read_custom(path, subject, selector, metric_selector)
        if not found:
            raise _no_metrics(_CUSTOM)
        with _fetching(_CUSTOM):
            return {each.described_object.name: _custom_metric(each) for each in found}

    async def object_metric(
        self,
        namespace: str,
        reference: CrossVersionObjectReference,
        metric: str,
        metric_selector: str,
    ) -> int:
        """Return a custom metric of an object of the namespace, in thousandths.

        A reference to a namespace always means the one that the autoscaler is in.
        """
        try:
            path, subject = await self._path_of(namespace, reference, metric)
        except (KindNotServed, APIError, ProtocolError, TransportError) as error:
            kind = ".".join(filter(None, (reference.kind, _group(reference))))
            why = f"unable to map kind {kind} to resource: {error}"
            raise _failed_fetch(_CUSTOM, why) from error
        found = await self._read_custom(path, subject, "", metric_selector)
        if len(found) != 1:
            why = (
                f"the custom metrics API server returned {len(found)} results when we "
                "asked for exactly one"
            )
            raise _failed_fetch(_CUSTOM, why)
        with _fetching(_CUSTOM):
            return milli_value(str(found[0].value))

    async def _path_of(
        self, namespace: str, reference: CrossVersionObjectReference, metric: str
    ) -> tuple[tuple[str, ...], str]:
        group = _group(reference)
        if (group, reference.kind) == ("", "Namespace"):
            path = ("namespaces", namespace, "metrics", metric)
            return path, f"metrics.{CUSTOM_GROUP}"
        resource = await self._resources.resource_of(group, reference.kind)
        name = resource.group_resource
        return (
            ("namespaces", namespace, name, reference.name, metric),
            f"{name}.{CUSTOM_GROUP} {reference.name}",
        )

    async def _read_custom(
        self, path: tuple[str, ...], subject: str, selector: str, metric_selector: str
    ) -> tuple[MetricValue, ...]:
        with _fetching(_CUSTOM):
            version = await self._version.get()
            answer = await self.custom.read(
                (version, *path),
                MetricValueList,
                subject,
                labelSelector=selector,
                metricLabelSelector=metric_selector,
            )
        return answer.items or ()

    async def external_metric(
        self, namespace: str, metric: str, selector: str
    ) -> Sequence[int]:
        """Return the values, in thousandths, of the series that a selector selects."""
        path = ("v1beta1", "namespaces", namespace, metric)
        subject = f"{metric}.{EXTERNAL_GROUP}"
        with _fetching(_EXTERNAL):
            answer = await self.external.read(
                path, ExternalMetricValueList, subject, labelSelector=selector
            )
        if not answer.items:
            raise _no_metrics(_EXTERNAL)
        with _fetching(_EXTERNAL):
            return [milli_value(str(each.value)) for each in answer.items]


@contextmanager
def _fetching(api: str) -> Iterator[None]:
    # An invalid number, time or duration is a failure of the API, too: upstream's
    # decoder refuses the answer.
    try:
        yield
    except (ComputationError, ValueError) as error:
        raise _failed_fetch(api, error) from error


def _failed_fetch(api: str, why: object) -> ComputationError:
    return ComputationError(f"unable to fetch metrics from {api} metrics API: {why}")


def _no_metrics(api: str) -> ComputationError:
    return ComputationError(f"no metrics returned from {api} metrics API")


def _usage(pod: PodMetrics, resource: str, container: str) -> int | None:
    containers = pod.containers or ()
    if container:
        containers = tuple(each for each in containers if each.name == container)
    usages = [(each.usage or {}).get(resource) for each in containers]
    known = [each for each in usages if each is not None]
    if not usages or len(known) < len(usages):
        return None
    return sum(milli_value(str(each)) for each in known)


def _usage_metric(pod: PodMetrics, amount: int) -> PodMetric:
    seconds = parse_duration(pod.window) if pod.window else 0.0
    return PodMetric(amount, _measured_at(pod.timestamp), timedelta(seconds=seconds))


def _custom_metric(value: MetricValue) -> PodMetric:
    given = (value.window_seconds, value.window, _WINDOW)
    seconds = next(each for each in given if each is not None)
    timestamp = _measured_at(value.timestamp)
    amount = milli_value(str(value.value))
    return PodMetric(amount, timestamp, timedelta(seconds=seconds))


def _measured_at(timestamp: str | None) -> datetime:
    """Return the time of a metric; one without a time is older than every other."""
    return parse_time(timestamp) if timestamp else _NEVER


def _group(reference: CrossVersionObjectReference) -> str:
    group, slash, _ = reference.api_version.partition("/")
    return group if slash else ""
