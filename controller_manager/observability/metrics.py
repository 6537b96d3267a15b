"""Prometheus collectors with upstream's names, labels and buckets.

Each daemon has its own registry and passes it on. There is no global registry, so
that one process may have two daemons.
"""

import math
from collections.abc import Callable, Iterable
from itertools import accumulate
from operator import mul
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from controller_manager.observability import series
from controller_manager.observability.kept_metrics import KeptRegistry
from controller_manager.observability.log_output import LostLines
from controller_manager.observability.rollouts import RolloutCollector

CollectorsT = TypeVar("CollectorsT")

# Multiplied step by step as in Go, so that the labels are 9.999999999999999e-06, too.
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
_PROCESSING_SECONDS: Final = (
    0.001,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
)
_LAG_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)


class QueueCollectors:
    """The ``workqueue_*`` metrics, labelled with the queue's name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self.depth = series.Gauge(
            "workqueue_depth",
            "Current depth of workqueue",
            ["name"],
            registry=registry,
        )
        self.adds = series.Counter(
            "workqueue_adds_total",
            "Total number of adds handled by workqueue",
            ["name"],
            registry=registry,
        )
        self.retries = series.Counter(
            "workqueue_retries_total",
            "Total number of retries handled by workqueue",
            ["name"],
            registry=registry,
        )
        self.queue_duration = series.Histogram(
            "workqueue_queue_duration_seconds",
            "Seconds an item stays in the workqueue before being requested",
            ["name"],
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )
        self.work_duration = series.Histogram(
            "workqueue_work_duration_seconds",
            "Seconds that processing an item from the workqueue takes",
            ["name"],
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )
        self.unfinished = series.Gauge(
            "workqueue_unfinished_work_seconds",
            "Summed seconds of work in progress that work_duration has not seen yet; "
            "steady growth means stuck workers",
            ["name"],
            registry=registry,
        )
        self.longest = series.Gauge(
            "workqueue_longest_running_processor_seconds",
            "Seconds that the longest running processor has been running",
            ["name"],
            registry=registry,
        )

    def queue(self, name: str) -> "PrometheusQueueMetrics":
        """Return the hooks of one queue; all its series start at zero."""
        return PrometheusQueueMetrics(self, name)


class PrometheusQueueMetrics:
    """The metrics hooks of one queue."""

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

    def dropped(self) -> None:
        """Set the depth to zero."""
        self._depth.set(0)

    def running(self, unfinished: float, longest: float) -> None:
        """Set the age of work in progress."""
        self._unfinished.set(unfinished)
        self._longest.set(longest)


class ClientCollectors:
    """The ``rest_client_*`` metrics of one API server."""

    def __init__(self, registry: CollectorRegistry, host: str) -> None:
        """Register the collectors for requests to `host`."""
        self._host = host
        self._hooks: dict[tuple[str, str], tuple[Callable[..., None], ...]] = {}
        self._throttle_hooks: dict[str, Callable[[float], None]] = {}
        self._requests = series.Counter(
            "rest_client_requests_total",
            "HTTP requests by status code, method and host",
            ["code", "host", "method"],
            registry=registry,
        )
        self._duration = series.Histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds by verb and host",
            ["host", "verb"],
            buckets=_REST_SECONDS,
            registry=registry,
        )
        self._throttled = series.Histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds by verb and host",
            ["host", "verb"],
            buckets=_REST_SECONDS,
            registry=registry,
        )
        self._request_size = series.Histogram(
            "rest_client_request_size_bytes",
            "Request size in bytes by verb and host",
            ["host", "verb"],
            buckets=_REST_BYTES,
            registry=registry,
        )
        self._response_size = series.Histogram(
            "rest_client_response_size_bytes",
            "Response size in bytes by verb and host",
            ["host", "verb"],
            buckets=_REST_BYTES,
            registry=registry,
        )

        self._retries = series.Counter(
            "rest_client_request_retries_total",
            "Requests that were sent again, by the code of the last answer, verb and "
            "host",
            ["code", "host", "verb"],
            registry=registry,
        )
        self._register_transport(registry)

    def _register_transport(self, registry: CollectorRegistry) -> None:
        """Register the metrics of connections and plugins.

        All clients share one transport, and no client certificate rotates.
        """
        Histogram(
            "rest_client_exec_plugin_certificate_rotation_age",
            "Seconds that the last client certificate of an exec plugin was in use",
            buckets=_ROTATION_AGE,
            registry=registry,
        )
        self._plugin_ttl = Gauge(
            "rest_client_exec_plugin_ttl_seconds",
            "Seconds until the credential of the exec plugin ends",
            registry=registry,
        )
        self.plugin_ttl(None)
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
        created = series.Counter(
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
        # Looking up labelled children took a sixth of the time of a request.
        hooks = self._hooks.get((method, code))
        if hooks is None:
            hooks = self._hooks[method, code] = (
                self._requests.labels(code, self._host, method).inc,
                self._duration.labels(self._host, method).observe,
                self._request_size.labels(self._host, method).observe,
                self._response_size.labels(self._host, method).observe,
            )
        count, observe_duration, observe_sent, observe_received = hooks
        count()
        observe_duration(seconds)
        observe_sent(sent)
        observe_received(received)

    def retried(self, method: str, code: str) -> None:
        """Count a retry; `code` is that of the last answer, ``<error>`` for none."""
        self._retries.labels(code, self._host, method).inc()

    def plugin_ttl(self, seconds: float | None) -> None:
        """Set the seconds until the plugin's credential expires, `None` for never."""
        self._plugin_ttl.set(math.inf if seconds is None else seconds)

    def observe_rate_limit(self, method: str, seconds: float) -> None:
        """Observe the wait for the client's own rate limiter."""
        hook = self._throttle_hooks.get(method)
        if hook is None:
            hook = self._throttled.labels(self._host, method).observe
            self._throttle_hooks[method] = hook
        hook(seconds)


class SyncCollectors:
    """Duration and outcome of syncs, which upstream does not export."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._duration = series.Histogram(
            "controller_sync_duration_seconds",
            "Seconds that a sync took by controller and outcome",
            ["controller", "outcome"],
            buckets=_SYNC_SECONDS,
            registry=registry,
        )

    def controller(self, name: str) -> "PrometheusSyncMetrics":
        """Return the hooks of one controller; all outcomes start at zero."""
        return PrometheusSyncMetrics(self._duration, name)


class PrometheusSyncMetrics:
    """The metrics hooks of one controller's worker loop."""

    def __init__(self, duration: series.Histogram, name: str) -> None:
        """Pre-create the series of every outcome."""
        self._outcomes = {
            outcome: duration.labels(name, outcome)
            for outcome in ("success", "requeue", "error")
        }

    def observe(self, outcome: str, seconds: float) -> None:
        """Observe one sync."""
        self._outcomes[outcome].observe(seconds)


class ElectionCollectors:
    """The ``leader_election_*`` metrics of all leases."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._master = series.Gauge(
            "leader_election_master_status",
            "1 if this process holds the lease of that name, 0 if it stands by",
            ["name"],
            registry=registry,
        )
        self._slow_path = series.Counter(
            "leader_election_slowpath_total",
            "Renewals that had to read the lease first",
            ["name"],
            registry=registry,
        )

    def lease(self, name: str) -> "LeaseMetrics":
        """Return the metrics of the lease of that name."""
        return LeaseMetrics(self._master.labels(name), self._slow_path.labels(name))


class LeaseMetrics:
    """The ``leader_election_*`` metrics of one lease."""

    def __init__(
        self, master: series.GaugeSeries, slow_path: series.CounterSeries
    ) -> None:
        """Take the gauge and the counter of the lease."""
        self._master = master
        self._slow_path = slow_path

    def set_leading(self, *, leading: bool) -> None:
        """Set whether this process leads."""
        self._master.set(1 if leading else 0)

    def slow_path(self) -> None:
        """Count a renewal that had to read the lease first."""
        self._slow_path.inc()


class InformerCollectors:
    """The ``informer_*`` metrics: upstream's, and some that upstream lacks."""

    def __init__(self, registry: CollectorRegistry, name: str) -> None:
        """Register the collectors; `name` distinguishes factories."""
        labels = ["group", "name", "resource", "version"]
        self._name = name
        self.queued = series.Gauge(
            "informer_queued_items",
            "Events that have come and are not in the cache yet",
            labels,
            registry=registry,
        )
        self.latency = series.Histogram(
            "informer_processing_latency_seconds",
            "Seconds from an event's coming until all handlers have seen it",
            labels,
            buckets=_PROCESSING_SECONDS,
            registry=registry,
        )
        self.cached = series.Gauge(
            "informer_cached_objects",
            "Objects in the cache",
            labels,
            registry=registry,
        )
        self.restarts = series.Counter(
            "informer_watch_restarts_total",
            "Watches begun after the first, by what ended the one before",
            [*labels, "cause"],
            registry=registry,
        )
        self.relists = series.Counter(
            "informer_relists_total",
            "Complete lists read after the first, by what made them necessary",
            [*labels, "cause"],
            registry=registry,
        )
        self.defects = series.Counter(
            "informer_unexpected_errors_total",
            "Unexpected errors that concerned one object or one list, by the part of "
            "the informer; the others go on",
            [*labels, "part"],
            registry=registry,
        )

    def informer(self, group: str, version: str, resource: str) -> "InformerMetrics":
        """Return the hooks of one informer; all its series start at zero."""
        return InformerMetrics(self, (group, self._name, resource, version))


WATCH_CAUSES: Final = ("ended", "error", "timeout", "expired", "garbage", "defect")
RELIST_CAUSES: Final = ("expired", "garbage", "too_large_version", "defect")
INFORMER_PARTS: Final = ("transform", "index", "handler", "reflector", "resync")


class InformerMetrics:
    """The metrics hooks of one informer and its reflector."""

    def __init__(
        self, collectors: InformerCollectors, labels: tuple[str, str, str, str]
    ) -> None:
        """Bind the collectors to a resource."""
        self._queued = collectors.queued.labels(*labels)
        self._latency = collectors.latency.labels(*labels)
        self._cached = collectors.cached.labels(*labels)
        self._restarts = {
            cause: collectors.restarts.labels(*labels, cause) for cause in WATCH_CAUSES
        }
        self._relists = {
            cause: collectors.relists.labels(*labels, cause) for cause in RELIST_CAUSES
        }
        self._defects = {
            part: collectors.defects.labels(*labels, part) for part in INFORMER_PARTS
        }

    def processed(self, events: int, seconds: float, cached: int) -> None:
        """Observe a batch: its events, its duration, the size of the cache after it."""
        self._latency.observe(seconds / max(events, 1))
        self._cached.set(cached)

    def queued(self, events: int) -> None:
        """Set how many events wait."""
        self._queued.set(events)

    def restarted(self, cause: str) -> None:
        """Count a watch that starts after another one, by what ended that one."""
        self._restarts[cause].inc()

    def relisted(self, cause: str) -> None:
        """Count a relist, by its cause."""
        self._relists[cause].inc()

    def defect(self, part: str) -> None:
        """Count an unexpected error, by the part of the informer."""
        self._defects[part].inc()


class CacheCollectors:
    """For each controller, the caches that it waits for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._synced = series.Gauge(
            "controller_cache_synced",
            "1 if a cache that the controller needs holds all objects, 0 if the "
            "controller waits for it",
            ["controller", "resource"],
            registry=registry,
        )

    def synced(self, controller: str, resource: str, *, synced: bool) -> None:
        """Set whether the cache that a controller needs is synced."""
        self._synced.labels(controller, resource).set(1 if synced else 0)


class LoopCollectors:
    """The lag of the event loop, and the duration of its longest turn."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._lag = Histogram(
            "event_loop_lag_seconds",
            "Seconds by which the event loop calls a timer too late",
            buckets=_LAG_SECONDS,
            registry=registry,
        )
        self._longest = 0.0
        self._longest_before = 0.0
        Gauge(
            "event_loop_longest_turn_seconds",
            "Seconds of the longest turn of the event loop in the last one to two "
            "minutes",
            registry=registry,
        ).set_function(lambda: max(self._longest, self._longest_before))
        self._stalled = Gauge(
            "event_loop_stalled_seconds",
            "Seconds by which the event loop of the controllers is late with its next "
            "turn",
            registry=registry,
        )

    def stalled_for(self, seconds: Callable[[], float]) -> None:
        """Show how many seconds the loop is late now, as `seconds` tells."""
        self._stalled.set_function(seconds)

    def late(self, seconds: float) -> None:
        """Observe the lag of one timer; the turn before it lasted at least as long."""
        self._lag.observe(seconds)
        self.turned(seconds)

    def turned(self, seconds: float) -> None:
        """Observe the duration of one turn in seconds."""
        self._longest = max(self._longest, seconds)

    def next_minute(self) -> None:
        """Forget the longest turn of the minute before this one."""
        self._longest_before, self._longest = self._longest, 0.0


class ServingCollectors:
    """Connections that the HTTPS server closed because they were too many."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._evicted = Counter(
            "serving_connections_evicted_total",
            "Connections that waited for their peer longest, closed for a new one",
            registry=registry,
        )
        self._refused = Counter(
            "serving_connections_refused_total",
            "New connections that were closed because all others were in use",
            registry=registry,
        )

        self._handshakes_refused = Counter(
            "serving_handshakes_refused_total",
            "New connections that were closed because their peer, or all peers, began "
            "too many TLS handshakes",
            registry=registry,
        )

    def handshake_refused(self) -> None:
        """Count a connection that was closed before its handshake."""
        self._handshakes_refused.inc()

    def evicted(self) -> None:
        """Count a connection that was closed for a new one."""
        self._evicted.inc()

    def refused(self) -> None:
        """Count a new connection that was closed."""
        self._refused.inc()


class DefectCollectors:
    """Unexpected errors outside of caches, each of which ended one part at most."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._errors = series.Counter(
            "unexpected_errors_total",
            "Unexpected errors by the part in which they were caught; the others go on",
            ["part"],
            registry=registry,
        )

    def count(self, part: str) -> None:
        """Count an error of a part, for example a controller, or events."""
        self._errors.labels(part).inc()


class LogCollectors(Collector):
    """The numbers of lost log lines, as counted by the logger."""

    def __init__(self, registry: CollectorRegistry, lost: LostLines) -> None:
        """Register the collector; `lost` is a logger's."""
        self._lost = lost
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """Read the logger's counts."""
        yield CounterMetricFamily(
            "log_write_failures_total",
            "Log lines that could not be written",
            value=self._lost.failed,
        )
        yield CounterMetricFamily(
            "log_lines_dropped_total",
            "Log lines that were dropped because the log was not read",
            value=self._lost.dropped,
        )


class Collectors:
    """All metrics of a daemon except those of the election."""

    def __init__(self, registry: CollectorRegistry, host: str, component: str) -> None:
        """Register the collectors; `host` is the API server's."""
        self._kept = KeptRegistry(registry)
        self._of_controllers: dict[Callable[..., Any], Any] = {}
        self.client = ClientCollectors(registry, host)
        self.caches = CacheCollectors(registry)
        self.defects = DefectCollectors(registry)
        self.informers = InformerCollectors(registry, component)
        self.loop = LoopCollectors(registry)
        self.queues = QueueCollectors(registry)
        self.rollouts = RolloutCollector(registry)
        self.syncs = SyncCollectors(registry)

    def of(self, collectors: Callable[[CollectorRegistry], CollectorsT]) -> CollectorsT:
        """Return a controller's own collectors; they are registered once.

        `collectors` is their class. Controllers with the same class share them.
        """
        if collectors not in self._of_controllers:
            self._of_controllers[collectors] = collectors(self._kept)
        found: CollectorsT = self._of_controllers[collectors]
        return found

    def refresh(self) -> None:
        """Collect what controllers show, before another thread scrapes."""
        self._kept.refresh()
