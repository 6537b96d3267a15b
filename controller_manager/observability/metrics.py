"""Prometheus collectors with upstream's names, labels and buckets.

One registry is made per daemon and handed around; there is no global one, so
that two daemons may live in one process.
"""

import math
from collections.abc import Iterable
from decimal import Decimal
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from controller_manager.version import KUBERNETES_VERSION, VERSION

# Multiplied up as Go does it, so that the labels read 9.999999999999999e-06 too.
_QUEUE_BUCKETS: Final = tuple(accumulate([1e-8] + [10.0] * 9, mul))
_REST_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
_REST_BYTES: Final = (64, 256, 512, *(4**power * 1024 for power in range(8)))
_ROTATION_AGE: Final = (
    600,
    1800,
    3600,
    14400,
    86400,
    604800,
    2592000,
    7776000,
    15552000,
    31104000,
    124416000,
)
_SYNC_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60)
_AGE_RATIO: Final = (0.25, 0.5, 1, 2, 4, 8)


class QueueCollectors:
    """The ``workqueue_*`` metrics, labelled with the queue's name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self.depth = Gauge(
            "workqueue_depth",
            "Current depth of workqueue",
            ["name"],
            registry=registry,
        )
        self.adds = Counter(
            "workqueue_adds_total",
            "Total number of adds handled by workqueue",
            ["name"],
            registry=registry,
        )
        self.retries = Counter(
            "workqueue_retries_total",
            "Total number of retries handled by workqueue",
            ["name"],
            registry=registry,
        )
        self.queue_duration = Histogram(
            "workqueue_queue_duration_seconds",
            "Seconds an item stays in the workqueue before being requested",
            ["name"],
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )
        self.work_duration = Histogram(
            "workqueue_work_duration_seconds",
            "Seconds that processing an item from the workqueue takes",
            ["name"],
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )
        self.unfinished = Gauge(
            "workqueue_unfinished_work_seconds",
            "Summed seconds of work in progress that work_duration has not seen yet; "
            "steady growth means stuck workers",
            ["name"],
            registry=registry,
        )
        self.longest = Gauge(
            "workqueue_longest_running_processor_seconds",
            "Seconds that the longest running processor has been running",
            ["name"],
            registry=registry,
        )

    def queue(self, name: str) -> "PrometheusQueueMetrics":
        """Return the hooks of one queue, every series of it at zero."""
        return PrometheusQueueMetrics(self, name)


class PrometheusQueueMetrics:
    """The hooks that one queue calls."""

    def __init__(self, collectors: QueueCollectors, name: str) -> None:
        """Bind the collectors to a queue's name."""
        self._depth = collectors.depth.labels(name)
        self._adds = collectors.adds.labels(name)
        self._retries = collectors.retries.labels(name)
        self._queue_duration = collectors.queue_duration.labels(name)
        self._work_duration = collectors.work_duration.labels(name)
        self._unfinished = collectors.unfinished.labels(name)
        self._longest = collectors.longest.labels(name)

    def added(self, depth: int) -> None:
        """Count an add."""
        self._adds.inc()
        self._depth.set(depth)

    def got(self, waited: float, depth: int) -> None:
        """Observe the time in the queue."""
        self._depth.set(depth)
        self._queue_duration.observe(waited)

    def done(self, worked: float) -> None:
        """Observe the time of processing."""
        self._work_duration.observe(worked)

    def retried(self) -> None:
        """Count a retry."""
        self._retries.inc()

    def running(self, unfinished: float, longest: float) -> None:
        """Set the age of work in progress."""
        self._unfinished.set(unfinished)
        self._longest.set(longest)


class ClientCollectors:
    """The ``rest_client_*`` metrics of one API server."""

    def __init__(self, registry: CollectorRegistry, host: str) -> None:
        """Register the collectors for requests to `host`."""
        self._host = host
        self._requests = Counter(
            "rest_client_requests_total",
            "HTTP requests by status code, method and host",
            ["code", "host", "method"],
            registry=registry,
        )
        self._duration = Histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds by verb and host",
            ["host", "verb"],
            buckets=_REST_SECONDS,
            registry=registry,
        )
        self._throttled = Histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds by verb and host",
            ["host", "verb"],
            buckets=_REST_SECONDS,
            registry=registry,
        )
        self._request_size = Histogram(
            "rest_client_request_size_bytes",
            "Request size in bytes by verb and host",
            ["host", "verb"],
            buckets=_REST_BYTES,
            registry=registry,
        )
        self._response_size = Histogram(
            "rest_client_response_size_bytes",
            "Response size in bytes by verb and host",
            ["host", "verb"],
            buckets=_REST_BYTES,
            registry=registry,
        )

        self._register_transport(registry)

    def _register_transport(self, registry: CollectorRegistry) -> None:
        """Register what there is to say of connections and plugins.

        One transport serves all clients; no client certificate rotates.
        """
        Histogram(
            "rest_client_exec_plugin_certificate_rotation_age",
            "Seconds that the last client certificate of an exec plugin was in use",
            buckets=_ROTATION_AGE,
            registry=registry,
        )
        Gauge(
            "rest_client_exec_plugin_ttl_seconds",
            "Seconds until the earliest client certificate of an exec plugin expires",
            registry=registry,
        ).set(math.inf)
        Gauge(
            "rest_client_transport_cache_entries",
            "Number of transports in use",
            registry=registry,
        ).set(1)
        Counter(
            "rest_client_transport_cert_rotation_gc_calls_total",
            "Number of transports whose certificate rotation was given up",
            registry=registry,
        )
        created = Counter(
            "rest_client_transport_create_calls_total",
            "Number of transports asked for, by whether there was one already",
            ["result"],
            registry=registry,
        )
        created.labels("miss").inc()
        for result in ("hit", "uncacheable"):
            created.labels(result)

    def observe_request(
        self, method: str, code: str, seconds: float, sent: int, received: int
    ) -> None:
        """Observe one answered (or failed) request."""
        self._requests.labels(code, self._host, method).inc()
        self._duration.labels(self._host, method).observe(seconds)
        self._request_size.labels(self._host, method).observe(sent)
        self._response_size.labels(self._host, method).observe(received)

    def observe_rate_limit(self, method: str, seconds: float) -> None:
        """Observe the wait for the client's own rate limiter."""
        self._throttled.labels(self._host, method).observe(seconds)


class SyncCollectors:
    """Duration and outcome of syncs, which upstream does not export."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._duration = Histogram(
            "controller_sync_duration_seconds",
            "Seconds that a sync took by controller and outcome",
            ["controller", "outcome"],
            buckets=_SYNC_SECONDS,
            registry=registry,
        )

    def controller(self, name: str) -> "PrometheusSyncMetrics":
        """Return the hooks of one controller, every outcome at zero."""
        return PrometheusSyncMetrics(self._duration, name)


class PrometheusSyncMetrics:
    """The hooks that one controller's worker loop calls."""

    def __init__(self, duration: Histogram, name: str) -> None:
        """Pre-create the series of every outcome."""
        self._outcomes = {
            outcome: duration.labels(name, outcome)
            for outcome in ("success", "requeue", "error")
        }

    def observe(self, outcome: str, seconds: float) -> None:
        """Observe one sync."""
        self._outcomes[outcome].observe(seconds)


class ReplicaSetCollectors:
    """The ``replicaset_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self.age_ratio = Histogram(
            "replicaset_controller_sorting_deletion_age_ratio",
            "Ratio of a deleted pod's age to that of the youngest ready pod",
            buckets=_AGE_RATIO,
            registry=registry,
        )
        self._skips = Counter(
            "replicaset_controller_stale_sync_skips_total",
            "Syncs put off because a cache was older than the last write",
            ["group", "resource"],
            registry=registry,
        )
        self._skips.labels("apps", "replicasets")
        self._skips.labels("", "pods")

    def skipped(self, group: str, resource: str) -> None:
        """Count a sync that was put off until `resource` is fresh enough."""
        self._skips.labels(group, resource).inc()


class _NetworkCollector(Collector):
    """Bytes in and out of the process's network namespace (Linux)."""

    def collect(self) -> Iterable[Metric]:
        received, sent = _network_bytes()
        yield CounterMetricFamily(
            "process_network_receive_bytes_total",
            "Number of bytes received by the process over the network",
            value=received,
        )
        yield CounterMetricFamily(
            "process_network_transmit_bytes_total",
            "Number of bytes sent by the process over the network",
            value=sent,
        )
        yield GaugeMetricFamily(
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes",
            value=_address_space_limit(),
        )


def _network_bytes() -> tuple[float, float]:
    received = sent = 0.0
    try:
        with Path("/proc/self/net/dev").open(encoding="ascii") as table:
            for line in table.readlines()[2:]:
                columns = line.partition(":")[2].split()
                received += float(columns[0])
                sent += float(columns[8])
    except OSError:
        return 0.0, 0.0  # not Linux: the series stays at zero
    return received, sent


def _address_space_limit() -> float:
    import resource  # noqa: PLC0415 - absent where there is no such limit

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    # Go prints the unlimited value of a 64-bit rlim_t.
    return float(soft) if soft != resource.RLIM_INFINITY else 2.0**64


def expose(registry: CollectorRegistry) -> bytes:
    """Return the registry in the text format, bounds written as Go writes them.

    Prometheus tells series apart by the text of ``le``: a dashboard that asks
    for ``le="1"`` does not find ``le="1.0"``.
    """
    return generate_latest(_GoBounds(registry))


class _GoBounds(CollectorRegistry):
    """A view of a registry with the bounds of histograms rewritten."""

    def __init__(self, inner: CollectorRegistry) -> None:
        super().__init__()
        self._inner = inner

    def collect(self) -> Iterable[Metric]:
        for metric in self._inner.collect():
            if metric.type == "histogram":
                metric.samples = [_with_go_bound(each) for each in metric.samples]
            yield metric


def _with_go_bound(sample: Sample) -> Sample:
    bound = sample.labels.get("le")
    if bound is None or bound == "+Inf":
        return sample
    return sample._replace(labels={**sample.labels, "le": go_float(float(bound))})


def go_float(value: float) -> str:
    """Return a number as Go's strconv does with format g: 1, 0.005, 1.6e+07."""
    number = Decimal(repr(value)).normalize()
    _, digits, exponent = number.as_tuple()
    magnitude = len(digits) + int(exponent) - 1
    if -5 < magnitude < 6 or value == 0:  # noqa: PLR2004 - Go's limits
        return format(number, "f")
    text = "".join(map(str, digits))
    mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
    return f"{mantissa}e{magnitude:+03d}"


def register_process(registry: CollectorRegistry) -> None:
    """Register ``process_*`` and ``kubernetes_build_info``."""
    ProcessCollector(registry=registry)
    registry.register(_NetworkCollector())
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    info = Gauge(
        "kubernetes_build_info",
        "Always 1, labelled with the build that runs",
        [
            "build_date",
            "compiler",
            "git_commit",
            "git_tree_state",
            "git_version",
            "go_version",
            "major",
            "minor",
            "platform",
        ],
        registry=registry,
    )
    info.labels(
        "", "python", VERSION, "", KUBERNETES_VERSION, "", major, minor, ""
    ).set(1)
