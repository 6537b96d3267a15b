"""Metrics of claims to devices, with upstream's names."""

from collections.abc import Iterable
from itertools import product
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controller_manager.api.dynamicresources.v1 import ResourceClaim
from controller_manager.informers.store import Index, Lister

_PREFIX: Final = "resourceclaim_controller"
_BOOLEANS: Final = ("false", "true")
_KINDS: Final = tuple(
    product(_BOOLEANS, _BOOLEANS, ("", "extended_resource", "resource_claim_template"))
)


def has_admin_access(claim: ResourceClaim) -> bool:
    """Tell whether a claim requests admin access to devices that others use."""
    devices = claim.spec.devices
    return any(
        each.exactly is not None and bool(each.exactly.admin_access)
        for each in (() if devices is None else devices.requests or ())
    )


def source_of(claim: ResourceClaim) -> str:
    """Return the source of a claim, "" for a claim that a user has created."""
    annotations = claim.metadata.annotations
    if annotations is None:
        return ""
    if annotations.extended_resource_claim == "true":
        return "extended_resource"
    return "resource_claim_template" if annotations.pod_claim_name else ""


def kind_of(claim: ResourceClaim) -> tuple[str, str, str]:
    """Return the values of the labels by which claims are counted."""
    is_allocated = claim.status.allocation is not None
    is_admin = has_admin_access(claim)
    return str(is_allocated).lower(), str(is_admin).lower(), source_of(claim)


CLAIMS_BY_KIND: Final = Index(
    "kind",
    lambda claim: ("|".join(kind_of(claim)),),
    lambda old, new: kind_of(old) == kind_of(new),
)
"""Claims by the labels by which they are counted."""


class ResourceClaimMetrics(Collector):
    """The ``resourceclaim_controller_*`` metrics.

    Claims are counted by an index of the cache at each scrape.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
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
            value = "|".join(kind)
            if self._claims is not None and (
                number := self._claims.count(CLAIMS_BY_KIND, value)
            ):
                family.add_metric(kind, number)
        yield family
