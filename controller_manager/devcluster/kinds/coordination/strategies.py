"""Strategies by which an API server elects the holder of a lease."""

from typing import Final

from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.scheme.statuses import Cause, not_supported, shown

OLDEST_EMULATION: Final = "OldestEmulationVersion"
"""The candidate that emulates the oldest version is elected."""


def validate_strategy(strategy: str, field: str) -> list[Cause]:
    """Check a strategy (ValidateCoordinatedLeaseStrategy of validation.go).

    Names without a slash are those of Kubernetes. The causes name the field twice, as
    upstream's causes do.
    """
    if "/" in strategy:
        return validate_qualified_name(strategy, f"{field}.strategy")
    if strategy == OLDEST_EMULATION:
        return []
    return [not_supported(f"{field}.strategy", shown(strategy), (OLDEST_EMULATION,))]
