"""Metrics of claims to devices, with upstream's names."""

from collections.abc import Iterable
from itertools import product
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controller_manager.api.dynamicresources.v1 import ResourceClaim
from controller_manager.informers.lister import Lister

from .indexes import CLAIMS_BY_KIND, kind_value

_PREFIX: Final = "resourceclaim_controller"
_BOOLEANS: Final = ("false", "true")
_KINDS: Final = tuple(
    product(_BOOLEANS, _BOOLEANS, ("", "extended_resource", "resource_claim_template"))
)


class ResourceClaimMetrics(Collector):
    """The ``resourceclaim_controller_*`` metrics.

    The numbers of claims are read from an index of the cache at each scrape, so no
    event can be counted twice or be missed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._claims: Lister[ResourceClaim] | None = None
        self._creates = Counter(
            f"{_PREFIX}_creates_total",
            "Number of ResourceClaims creation requests, categorized by creation "
            "status and admin access",
            ["status", "admin_access"],
            registry=registry,
        )
        registry.register(self)

    def count(self, claims: Lister[ResourceClaim]) -> None:
        """Count the claims of this lister from now on; it needs `CLAIMS_BY_KIND`."""
        self._claims = claims

    def created(self, *, failed: bool, admin_access: str) -> None:
        """Count a request to create a claim."""
        self._creates.labels("failure" if failed else "success", admin_access).inc()

    def collect(self) -> Iterable[Metric]:
        """Read the numbers of claims of each kind."""
        family = GaugeMetricFamily(
            f"{_PREFIX}_resource_claims",
            "Number of ResourceClaims, categorized by allocation status, admin "
            "access, and source. Source can be 'resource_claim_template' (created "
            "from a template), 'extended_resource' (extended resources), or empty "
            "(manually created by a user).",
            labels=("allocated", "admin_access", "source"),
        )
        for kind in _KINDS:
            if number := self._number(kind):
                family.add_metric(kind, number)
        yield family

    def _number(self, kind: Iterable[str]) -> int:
        if self._claims is None:
            return 0
        return self._claims.count(CLAIMS_BY_KIND, kind_value(kind))
