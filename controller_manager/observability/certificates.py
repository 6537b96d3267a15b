"""The metric of the times at which the certificates of this process end."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cryptography import x509
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

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
        """Register the collector, without certificates."""
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
