"""The metrics of informers, and of the controllers that wait for them."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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
        """Register the collectors; `name` distinguishes factories."""
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

    def informer(self, group: str, version: str, resource: str) -> "InformerMetrics":
        """Return the hooks of one informer; all its series start at zero."""
        return InformerMetrics(self, (group, self._name, resource, version))

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
        """Bind the collectors to a resource.

        Gauges that change with each event are read at the scrape.
        """
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
        """Register the collectors."""
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
