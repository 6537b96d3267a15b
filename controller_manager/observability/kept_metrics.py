"""Metrics of controllers, collected in their thread and shown by another one.

Collectors of controllers read what the controllers change: a dict that grows while
another thread iterates it raises an exception. The collectors of the client library
need no such care, they have locks.
"""

import threading
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class KeptRegistry(CollectorRegistry):
    """Registers collectors in another registry, which may be scraped by any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Take the registry that is scraped; make this in the controllers' thread."""
        super().__init__()
        self._shown = registry
        self._kept: list[_Kept] = []

    def register(self, collector: Collector) -> None:
        """Register a collector; one of a class of its own is collected by `refresh`."""
        if not isinstance(collector, MetricWrapperBase):
            collector = _Kept(collector)
            self._kept.append(collector)
        self._shown.register(collector)

    def refresh(self) -> None:
        """Collect, in the controllers' thread."""
        for each in self._kept:
            each.refresh()


class _Kept(Collector):
    """A collector whose last values are shown to other threads than its own."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._thread = threading.get_ident()
        self._values: Sequence[Metric] = ()

    def describe(self) -> Iterable[Metric]:
        describe = getattr(self._collector, "describe", None)
        return describe() if describe is not None else ()

    def refresh(self) -> None:
        self._values = tuple(self._collector.collect())

    def collect(self) -> Iterable[Metric]:
        if threading.get_ident() == self._thread:
            return self._collector.collect()
        return self._values
