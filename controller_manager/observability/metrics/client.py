"""Metrics of what client-go measures: requests, informers, queues; and of syncs."""

import math
from collections.abc import Callable
from copy import copy
from itertools import accumulate
from operator import mul
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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


class ClientCollectors:
    """The ``rest_client_*`` metrics of one API server; see `of_host` for others."""

    def __init__(self, registry: CollectorRegistry, host: str) -> None:
        self._host = host
        self._hooks: dict[tuple[str, str], tuple[Callable[..., None], ...]] = {}
        self._throttle_hooks: dict[str, Callable[[float], None]] = {}
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

        self._retries = Counter(
            "rest_client_request_retries_total",
            "Requests that were sent again, by the code of the last answer, verb and "
            "host",
            ["code", "host", "verb"],
            registry=registry,
        )
        self._register_transport(registry)

    def of_host(self, host: str) -> "ClientCollectors":
        """Return these metrics for another API server."""
        other = copy(self)
        vars(other).update(_host=host, _hooks={}, _throttle_hooks={})
        return other

    def _register_transport(self, registry: CollectorRegistry) -> None:
        """Register the metrics of connections and plugins.

        All clients share one transport, which is in use to the end, and no client
        certificate rotates.
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
        collected = Counter(
            "rest_client_transport_cache_gc_calls_total",
            "Number of times that an unused transport was to be deleted, by the "
            "result: deleted, skipped",
            ["result"],
            registry=registry,
        )
        for result in ("deleted", "skipped"):
            collected.labels(result)
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


_SHOWN_DIGITS: Final = 15
"""As many digits of a version as each number of a gauge can hold."""


class InformerCollectors:
    """The ``informer_*`` metrics: upstream's, and some that upstream lacks."""

    def __init__(self, registry: CollectorRegistry, name: str) -> None:
        """`name` distinguishes factories."""
        labels = ["group", "name", "resource", "version"]
        self._name = name
        self.queued = Gauge(
            "informer_queued_items",
            "Events that have come and are not in the cache yet",
            labels,
            registry=registry,
        )
        self.latency = Histogram(
            "informer_processing_latency_seconds",
            "Seconds from an event's coming until all handlers have seen it",
            labels,
            buckets=_PROCESSING_SECONDS,
            registry=registry,
        )
        self.cached = Gauge(
            "informer_cached_objects",
            "Objects in the cache",
            labels,
            registry=registry,
        )
        self.version = Gauge(
            "informer_store_resource_version",
            "The 15 least significant digits of the resource version of the store",
            labels,
            registry=registry,
        )
        self.restarts = Counter(
            "informer_watch_restarts_total",
            "Watches begun after the first, by what ended the one before",
            [*labels, "cause"],
            registry=registry,
        )
        self.relists = Counter(
            "informer_relists_total",
            "Complete lists read after the first, by what made them necessary",
            [*labels, "cause"],
            registry=registry,
        )
        self.defects = Counter(
            "informer_unexpected_errors_total",
            "Unexpected errors that concerned one object or one list, by the part of "
            "the informer; the others go on",
            [*labels, "part"],
            registry=registry,
        )

    def informer(
        self, group: str, version: str, resource: str, cluster: str = ""
    ) -> "InformerMetrics":
        """Return the hooks of one informer; all its series start at zero.

        The name of another `cluster` follows that of the factory.
        """
        name = f"{self._name}/{cluster}" if cluster else self._name
        return InformerMetrics(self, (group, name, resource, version))

    def remove(self, group: str, version: str, resource: str) -> None:
        """Remove the series of an informer that has been stopped."""
        labels = (group, self._name, resource, version)
        for family in (self.queued, self.latency, self.cached, self.version):
            family.remove(*labels)
        for counter, values in (
            (self.restarts, WATCH_CAUSES),
            (self.relists, RELIST_CAUSES),
            (self.defects, INFORMER_PARTS),
        ):
            for value in values:
                counter.remove(*labels, value)


WATCH_CAUSES: Final = ("ended", "error", "timeout", "expired", "garbage", "defect")
RELIST_CAUSES: Final = ("expired", "garbage", "too_large_version", "defect")
INFORMER_PARTS: Final = ("transform", "index", "handler", "reflector", "resync")


class InformerMetrics:
    """The metrics hooks of one informer and its reflector."""

    def __init__(
        self, collectors: InformerCollectors, labels: tuple[str, str, str, str]
    ) -> None:
        """Gauges that change with each event are read at the scrape."""
        self._queued = self._cached = self._version = 0
        collectors.queued.labels(*labels).set_function(lambda: self._queued)
        collectors.cached.labels(*labels).set_function(lambda: self._cached)
        collectors.version.labels(*labels).set_function(lambda: self._version)
        self._latency = collectors.latency.labels(*labels)
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
        self._cached = cached

    def at_version(self, resource_version: str) -> None:
        """Show the version of the store; one that is no number changes nothing."""
        digits = resource_version[-_SHOWN_DIGITS:]
        if digits.isdecimal():
            self._version = int(digits)

    def queued(self, events: int) -> None:
        """Set how many events wait."""
        self._queued = events

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
        self._synced = Gauge(
            "controller_cache_synced",
            "1 if a cache that the controller needs holds all objects, 0 if the "
            "controller waits for it",
            ["controller", "resource"],
            registry=registry,
        )

    def synced(self, controller: str, resource: str, *, synced: bool) -> None:
        """Set whether the cache that a controller needs is synced."""
        self._synced.labels(controller, resource).set(1 if synced else 0)


# Multiplied step by step as in Go, so that the labels are 9.999999999999999e-06, too.
_QUEUE_BUCKETS: Final = tuple(accumulate([1e-8] + [10.0] * 9, mul))


class QueueCollectors:
    """The ``workqueue_*`` metrics, labelled with the queue's name."""

    def __init__(self, registry: CollectorRegistry) -> None:
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
        """Return the hooks of one queue; all its series start at zero."""
        return PrometheusQueueMetrics(self, name)


class PrometheusQueueMetrics:
    """The metrics hooks of one queue."""

    def __init__(self, collectors: QueueCollectors, name: str) -> None:
        self._depth = 0
        collectors.depth.labels(name).set_function(lambda: self._depth)
        self._adds = collectors.adds.labels(name)
        self._retries = collectors.retries.labels(name)
        self._queue_duration = collectors.queue_duration.labels(name)
        self._work_duration = collectors.work_duration.labels(name)
        self._unfinished = collectors.unfinished.labels(name)
        self._longest = collectors.longest.labels(name)

    def added(self, depth: int) -> None:
        """Count an add."""
        self._adds.inc()
        self._depth = depth

    def got(self, waited: float, depth: int) -> None:
        """Observe the time in the queue."""
        self._depth = depth
        self._queue_duration.observe(waited)

    def done(self, worked: float) -> None:
        """Observe the time of processing."""
        self._work_duration.observe(worked)

    def retried(self) -> None:
        """Count a retry."""
        self._retries.inc()

    def dropped(self) -> None:
        """Set the depth to zero."""
        self._depth = 0

    def running(self, unfinished: float, longest: float) -> None:
        """Set the age of work in progress."""
        self._unfinished.set(unfinished)
        self._longest.set(longest)


_SYNC_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60)


class SyncCollectors:
    """Duration and outcome of syncs, which upstream does not export."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._duration = Histogram(
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

    def __init__(self, duration: Histogram, name: str) -> None:
        self._outcomes = {
            outcome: duration.labels(name, outcome)
            for outcome in ("success", "requeue", "refused", "error")
        }

    def observe(self, outcome: str, seconds: float) -> None:
        """Observe one sync."""
        self._outcomes[outcome].observe(seconds)
