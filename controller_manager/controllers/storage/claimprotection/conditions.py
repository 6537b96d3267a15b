"""The condition Unused of a claim: no pod refers to the claim, and since when.

Upstream: pvc_protection_controller.go with PersistentVolumeClaimUnusedSinceTime.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core.claims import (
    BOUND,
    ClaimCondition,
    PersistentVolumeClaim,
)
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.raw_fields import with_fields
from controller_manager.api.times import format_time

UNUSED: Final = "Unused"

_ENDED: Final = ("Succeeded", "Failed")


def is_tracked(claim: PersistentVolumeClaim) -> bool:
    """Tell whether a claim needs the condition: it is bound and not being deleted."""
    return claim.status.phase == BOUND and not is_deleting(claim)


def refers(pod: Pod) -> bool:
    """Tell whether a pod counts for the claims that its volumes name.

    A pod without a node counts, an ended pod does not.
    """
    return pod.status.phase not in _ENDED


def is_marked(claim: PersistentVolumeClaim, *, unused: bool) -> bool:
    """Tell whether the condition of a claim has the status for `unused`."""
    status = "True" if unused else "False"
    return any(
        each.type == UNUSED and each.status == status
        for each in claim.status.conditions or ()
    )


def marked(
    claim: PersistentVolumeClaim, pods: Iterable[Pod], now: datetime
) -> PersistentVolumeClaim:
    """Return a claim whose condition is that of the pods that name it.

    The same claim is returned if its condition is right already.
    """
    unused = not any(refers(pod) for pod in pods)
    if is_marked(claim, unused=unused):
        return claim
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
