"""Evaluates one metric of an autoscaler, by the type of its source.

Upstream: computeReplicasForMetric and the computeStatusFor... functions of
pkg/controller/podautoscaler/horizontal.go.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial

from msgspec import Struct

from controller_manager.api.autoscaling import v2
from controller_manager.api.core.v1 import Pod
from controller_manager.api.quantity import Format, Quantity
from controller_manager.api.selectors import (
    LabelSelector,
    SelectorError,
    as_go_prints,
    compile_selector,
    format_selector,
)
from controller_manager.schedules.quoting import quoted

from . import replica_calculator
from .metrics_client import MetricsClient
from .pods import ComputationError, PodSample, Thresholds, milli_value, requested
from .replica_calculator import Proposal


class Evaluation(Struct, frozen=True):
    """The replicas that a metric asks for, its name in messages, and its status."""

    replicas: int
    name: str
    status: v2.MetricStatus


class MetricFailure(Exception):
    """A metric from which no number of replicas can be computed.

    `reason` and `cause` are those of the event and of the condition; the message of
    the exception has more details, as upstream's. `is_spec` is true if the spec of
    the autoscaler is the cause.
    """

    def __init__(
        self, cause: str, reason: str, message: str, *, is_spec: bool = False
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.cause = cause
        self.is_spec = is_spec


class MetricSources(Struct, frozen=True):
    """The metrics of the target of an autoscaler, as it is now.

    `desired` and `observed` are the replicas in spec and status of its scale;
    `selector` is the scale's. `find_pods` returns the pods that it selects now: an
    answer of a metrics API may take long, and the pods may have changed meanwhile. With
    `pod_level`, the requests of a pod as a whole count instead of its containers'.
    """

    client: MetricsClient
    namespace: str
    desired: int
    observed: int
    selector: str
    find_pods: Callable[[], Sequence[Pod]]
    thresholds: Thresholds
    now: datetime
    pod_level: bool

    async def evaluate(self, spec: v2.MetricSpec) -> Evaluation:
        """Return the replicas for a metric; raise MetricFailure or APIStuck."""
        match spec.type:
            case "Resource" if spec.resource is not None:
                return await self._of_resource(spec.resource)
            case "ContainerResource" if spec.container_resource is not None:
                return await self._of_containers(spec.container_resource)
            case "Pods" if spec.pods is not None:
                return await self._of_pods(spec.pods)
            case "Object" if spec.object is not None:
                return await self._of_object(spec.object)
            case "External" if spec.external is not None:
                return await self._of_external(spec.external)
        why = f"unknown metric source type {quoted(spec.type)}"
        raise MetricFailure(why, "InvalidMetricSourceType", why, is_spec=True)

    # The usage of resources.

    async def _of_resource(self, source: v2.ResourceMetricSource) -> Evaluation:
        name, target = source.name, source.target
        before = f"failed to get {name} resource metric value"
        with _failing("FailedGetResourceMetric", before):
            proposal = await self._usage(target, name, "")
        shown = v2.ResourceMetricStatus(name, _average_of(proposal, name))
        status = v2.MetricStatus(type="Resource", resource=shown)
        return Evaluation(proposal.replicas, _named(target, name, "resource"), status)

    async def _of_containers(
        self, source: v2.ContainerResourceMetricSource
    ) -> Evaluation:
        name, target, container = source.name, source.target, source.container
        before = f"failed to get {container} container metric value"
        with _failing("FailedGetContainerResourceMetric", before):
            proposal = await self._usage(target, name, container)
        shown = v2.ContainerResourceMetricStatus(
            name, _average_of(proposal, name), container
        )
        status = v2.MetricStatus(type="ContainerResource", container_resource=shown)
        named = _named(target, name, "container resource")
        return Evaluation(proposal.replicas, named, status)

    async def _usage(
        self, target: v2.MetricTarget, name: str, container: str
    ) -> Proposal:
        """Return the replicas for a target (computeStatusForResourceMetricGeneric)."""
        if target.average_value is None and target.average_utilization is None:
            msg = (
                "invalid resource metric source: neither an average utilization target "
                "nor an average value (usage) target was set"
            )
            raise ComputationError(msg)
        what = "usage" if target.average_value is not None else "utilization"
        with _about(f"failed to get {name} {what}"):
            with _about(f"unable to get metrics for resource {name}"):
                metrics = await self.client.resource_metric(
                    self.namespace, self.selector, name, container
                )
            found = self.find_pods()
            sample = PodSample(found, metrics, self.now, name)
            if target.average_value is not None:
                wanted = milli_value(target.average_value)
                return replica_calculator.replicas_for_average(
                    sample, self.desired, wanted, self.thresholds
                )
            return replica_calculator.replicas_for_utilization(
                sample,
                lambda: requested(found, name, container, pod_level=self.pod_level),
                self.desired,
                target.average_utilization or 0,
                self.thresholds,
            )

    # Custom and external metrics.

    async def _of_pods(self, source: v2.PodsMetricSource) -> Evaluation:
        metric, wanted = source.metric, source.target.average_value
        with _failing("FailedGetPodsMetric", "failed to get pods metric value"):
            if wanted is None:
                msg = "invalid pods metric source: no average value target was set"
                raise ComputationError(msg)
            compile_selector(metric.selector)
            with _about(f"unable to get metric {metric.name}"):
                query = _query_of(metric.selector)
                metrics = await self.client.raw_metric(
                    self.namespace, self.selector, metric.name, query
                )
            proposal = replica_calculator.replicas_for_average(
                PodSample(self.find_pods(), metrics, self.now),
                self.desired,
                milli_value(wanted),
                self.thresholds,
            )
        shown = v2.PodsMetricStatus(metric, _average_of(proposal))
        status = v2.MetricStatus(type="Pods", pods=shown)
        return Evaluation(proposal.replicas, f"pods metric {metric.name}", status)

    async def _of_object(self, source: v2.ObjectMetricSource) -> Evaluation:
        metric, target = source.metric, source.target
        reference = source.described_object
        average = target.average_value if target.type == "AverageValue" else None
        value = target.value if target.type == "Value" else None
        before = "failed to get object metric value"
        # Upstream compiles the selector before it looks at the target.
        with _failing("FailedGetObjectMetric", before):
            compile_selector(metric.selector)
        if average is not None:
            before += f": failed to get {metric.name} object metric"
        with _failing("FailedGetObjectMetric", before):
            read = partial(self._read_object, source)
            proposal, current = await self._of_total(read, average, value, "object")
        shown = v2.ObjectMetricStatus(metric, current, reference)
        status = v2.MetricStatus(type="Object", object=shown)
        named = f"{reference.kind} metric {metric.name}"
        return Evaluation(proposal.replicas, named, status)

    async def _of_external(self, source: v2.ExternalMetricSource) -> Evaluation:
        metric, target = source.metric, source.target
        before = f"failed to get {metric.name} external metric value"
        if target.average_value is not None:
            before += f": failed to get {metric.name} external metric"
        elif target.value is not None:
            before += f": failed to get external metric {metric.name}"
        with _failing("FailedGetExternalMetric", before):
            read = partial(self._read_external, source)
            proposal, current = await self._of_total(
                read, target.average_value, target.value, "external"
            )
        shown = v2.ExternalMetricStatus(metric, current)
        status = v2.MetricStatus(type="External", external=shown)
        named = f"external metric {metric.name}({as_go_prints(metric.selector)})"
        return Evaluation(proposal.replicas, named, status)

    async def _of_total(
        self,
        read: Callable[[], Awaitable[int]],
        average: str | None,
        value: str | None,
        source: str,
    ) -> tuple[Proposal, v2.MetricValueStatus]:
        # `read` returns the metric of all pods in thousandths, `average` is for one
        # pod.
        tolerances = self.thresholds.tolerances
        if average is not None:
            usage, wanted = await read(), milli_value(average)
            proposal = replica_calculator.replicas_for_share(
                usage, self.desired, self.observed, wanted, tolerances
            )
            return proposal, _average_of(proposal)
        if value is not None:
            usage, wanted = await read(), milli_value(value)
            proposal = replica_calculator.replicas_for_value(
                self.find_pods(), usage, self.desired, wanted, tolerances
            )
            return proposal, v2.MetricValueStatus(value=_shown(proposal.usage or 0))
        msg = (
            f"invalid {source} metric source: neither a value target nor an average "
            "value target was set"
        )
        raise ComputationError(msg)

    async def _read_object(self, source: v2.ObjectMetricSource) -> int:
        metric, reference = source.metric, source.described_object
        of = f"{reference.kind} {self.namespace}/{reference.name}"
        with _about(f"unable to get metric {metric.name} on {of}"):
            return await self.client.object_metric(
                self.namespace, reference, metric.name, _query_of(metric.selector)
            )

    async def _read_external(self, source: v2.ExternalMetricSource) -> int:
        metric = source.metric
        compile_selector(metric.selector)
        full_name = f"{self.namespace}/{metric.name}/{as_go_prints(metric.selector)}"
        with _about(f"unable to get external metric {full_name}"):
            values = await self.client.external_metric(
                self.namespace, metric.name, _query_of(metric.selector)
            )
        return replica_calculator.total(values)


@contextmanager
def _about(before: str) -> Iterator[None]:
    """Put words before the message of an error, as upstream does."""
    try:
        yield
    except ComputationError as error:
        msg = f"{before}: {error}"
        raise ComputationError(msg) from error


@contextmanager
def _failing(reason: str, before: str) -> Iterator[None]:
    """Raise MetricFailure for an error, with words before its message."""
    try:
        yield
    except (ComputationError, SelectorError) as error:
        raise MetricFailure(str(error), reason, f"{before}: {error}") from error


def _named(target: v2.MetricTarget, name: str, what: str) -> str:
    if target.average_value is not None:
        return f"{name} resource"
    return f"{name} {what} utilization (percentage of request)"


def _shown(milli: int, form: Format = Format.DECIMAL_SI) -> str:
    return str(Quantity.of_milli(milli, form))


def _average_of(proposal: Proposal, resource: str = "") -> v2.MetricValueStatus:
    # Memory is shown in powers of 1024, as a metrics server shows it (buildQuantity).
    if proposal.usage is None:
        return v2.MetricValueStatus()
    form = Format.BINARY_SI if resource == "memory" else Format.DECIMAL_SI
    return v2.MetricValueStatus(
        average_value=_shown(proposal.usage, form),
        average_utilization=proposal.utilization,
    )


def _query_of(selector: LabelSelector | None) -> str:
    return "" if selector is None else format_selector(selector)
