"""The metrics of work queues and of syncs."""

from itertools import accumulate
from operator import mul
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# Multiplied step by step as in Go, so that the labels are 9.999999999999999e-06, too.
_QUEUE_BUCKETS: Final = tuple(accumulate([1e-8] + [10.0] * 9, mul))


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
        """Return the hooks of one queue; all its series start at zero."""
        return PrometheusQueueMetrics(self, name)


class PrometheusQueueMetrics:
    """The metrics hooks of one queue."""

    def __init__(self, collectors: QueueCollectors, name: str) -> None:
        """Bind the collectors to a queue's name; the depth is read at the scrape."""
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
        """Register the collectors."""
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
        """Pre-create the series of every outcome."""
        self._outcomes = {
            outcome: duration.labels(name, outcome)
            for outcome in ("success", "requeue", "refused", "error")
        }

    def observe(self, outcome: str, seconds: float) -> None:
        """Observe one sync."""
        self._outcomes[outcome].observe(seconds)
