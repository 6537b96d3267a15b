"""The number of pods to create or delete (manageReplicas), as a value."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import Pod

BURST_REPLICAS: Final = 500
"""The most pods that one sync creates or deletes."""


class Create(Struct, frozen=True):
    """Create this many pods."""

    count: int


class Delete(Struct, frozen=True):
    """Delete this many pods; `ranking` chooses them."""

    count: int


Plan = Create | Delete | None


def plan_replicas(active: Sequence[Pod], wanted: int) -> Plan:
    """Return the plan that brings the active pods to `wanted`, in one burst at most.

    `None` means that the number is right.
    """
    difference = wanted - len(active)
    if difference > 0:
        return Create(min(difference, BURST_REPLICAS))
    if difference < 0:
        return Delete(min(-difference, BURST_REPLICAS))
    return None
