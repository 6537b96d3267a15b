"""How many pods to create or delete (manageReplicas), as a value."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controller_manager.api.core.v1 import Pod

BURST_REPLICAS: Final = 500
"""Pods created or deleted in one sync at most."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create this many pods."""

    count: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete this many pods; which ones, `ranking` tells."""

    count: int


Plan = Create | Delete | None


def plan_replicas(active: Sequence[Pod], wanted: int) -> Plan:
    """Return what brings `active` pods to `wanted`, one burst at most."""
    difference = wanted - len(active)
    if difference > 0:
        return Create(min(difference, BURST_REPLICAS))
    if difference < 0:
        return Delete(min(-difference, BURST_REPLICAS))
    return None
