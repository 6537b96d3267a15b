"""All metrics of a daemon.

Those of controllers are collected in their thread and shown by another one: their
collectors read what the controllers change, and a dict that grows while another thread
iterates it raises an exception. The collectors of the client library need no such care,
they have locks.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from cryptography import x509
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .client import (
    CacheCollectors,
    ClientCollectors,
    InformerCollectors,
    QueueCollectors,
    SyncCollectors,
)
from .manager import DefectCollectors, LoopCollectors, RolloutCollector

CERTIFICATE_ENDS: Final = "certificate_expiration_timestamp_seconds"
"""The name of the metric."""

Certificates = Callable[[], Mapping[str, bytes]]
"""Returns certificates with their chains as PEM, by the place where they were read."""


class CertificateCollector(Collector):
    """The end of each certificate that this process shows to others.

    The first certificate of a chain that ends counts. They are read at each scrape: a
    file may be renewed at any time.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._by_use: dict[str, Certificates] = {}
        registry.register(self)

    def show(self, use: str, certificates: Certificates) -> None:
        """Show the certificates of one use, ``client`` or ``serving``, from now on."""
        self._by_use[use] = certificates

    def collect(self) -> Iterable[Metric]:
        """Read the certificates; one that cannot be read has no series."""
        family = GaugeMetricFamily(
            CERTIFICATE_ENDS,
            "Time at which a certificate of this process ends, in seconds since 1970, "
            "by its use, client or serving, and the place where it was read",
            labels=["use", "source"],
        )
        for use, certificates in self._by_use.items():
            for source, pem in certificates().items():
                ends_at = _end_of(pem)
                if ends_at is not None:
                    family.add_metric([use, source], ends_at)
        yield family


def _end_of(pem: bytes) -> float | None:
    """Return the time at which the first certificate of a chain ends."""
    try:
        found = x509.load_pem_x509_certificates(pem)
    except ValueError:
        return None
    return min(each.not_valid_after_utc.timestamp() for each in found)


class KeptRegistry(CollectorRegistry):
    """Registers collectors in another registry, which may be scraped by any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Make this in the controllers' thread; `registry` is scraped."""
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


CollectorsT = TypeVar("CollectorsT")


class Collectors:
    """All metrics of a daemon except those of the election."""

    def __init__(self, registry: CollectorRegistry, host: str, component: str) -> None:
        """`host` is the API server's."""
        self._kept = KeptRegistry(registry)
        self._of_controllers: dict[Callable[..., Any], Any] = {}
        self.client = ClientCollectors(registry, host)
        self.caches = CacheCollectors(registry)
        self.certificates = CertificateCollector(registry)
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
