"""Which hints a service asks for (hintsEnabled, validTrafficDistribution)."""

from typing import Final

from controller_manager.api.core.services import Service

PREFER_CLOSE: Final = "PreferClose"
PREFER_SAME_ZONE: Final = "PreferSameZone"
PREFER_SAME_NODE: Final = "PreferSameNode"

DISTRIBUTIONS: Final = (PREFER_CLOSE, PREFER_SAME_ZONE, PREFER_SAME_NODE)
"""The values that are known."""
_AUTO: Final = ("Auto", "auto")


def is_by_topology(service: Service) -> bool:
    """Tell whether an annotation asks for a share of the endpoints for each zone.

    It wins over ``spec.trafficDistribution``. The deprecated annotation wins over the
    other one.
    """
    annotations = service.metadata.annotations
    if annotations is None:
        return False
    deprecated = annotations.topology_aware_hints
    mode = annotations.topology_mode if deprecated is None else deprecated
    return mode in _AUTO


def distribution_of(service: Service) -> str:
    """Return the traffic distribution that applies, empty for none."""
    distribution = service.spec.traffic_distribution
    if distribution not in DISTRIBUTIONS or is_by_topology(service):
        return ""
    return distribution
