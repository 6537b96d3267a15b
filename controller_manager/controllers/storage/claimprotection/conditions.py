"""The condition Unused of a claim: no pod refers to the claim, and since when.

Upstream: pvc_protection_controller.go with PersistentVolumeClaimUnusedSinceTime.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core.claims import ClaimCondition, PersistentVolumeClaim
from controller_manager.api.meta import is_deleting
from controller_manager.api.raw_fields import with_fields
from controller_manager.api.times import format_time
from controller_manager.informers.indexes import Index

UNUSED: Final = "Unused"


def is_tracked(claim: PersistentVolumeClaim) -> bool:
    """Tell whether a claim needs the condition: it is not being deleted."""
    return not is_deleting(claim)


def is_marked(claim: PersistentVolumeClaim, *, unused: bool) -> bool:
    """Tell whether the condition of a claim says that the claim is unused, or used.

    Each status but True says that the claim is used.
    """
    return any(
        each.type == UNUSED and (each.status == "True") == unused
        for each in claim.status.conditions or ()
    )


def marked(
    claim: PersistentVolumeClaim, now: datetime, *, unused: bool
) -> PersistentVolumeClaim:
    """Return a claim with a condition that says so; it had another or none."""
    new = ClaimCondition(
        type=UNUSED,
        status="True" if unused else "False",
        reason="NoPodsUsingPVC" if unused else "PodUsingPVC",
        message="No pods are currently referencing this PVC"
        if unused
        else "A pod is currently referencing this PVC",
        last_transition_time=format_time(now),
    )
    old = claim.status.conditions or ()
    conditions = tuple(new if each.type == UNUSED else each for each in old)
    if new not in conditions:
        conditions = (*conditions, new)
    raw = with_fields(claim.raw_status, {"conditions": conditions})
    return replace(claim, raw_status=raw)


def _namespace_of_unmarked(claim: PersistentVolumeClaim) -> Iterable[str]:
    may_become_unused = is_tracked(claim) and not is_marked(claim, unused=True)
    return (claim.metadata.namespace,) if may_become_unused else ()


UNMARKED: Final = Index(
    "not marked as unused",
    _namespace_of_unmarked,
    lambda old, new: _namespace_of_unmarked(old) == _namespace_of_unmarked(new),
)
"""The claims that may become unused, by their namespace."""
