"""Deliberate bugs of the protection of claims."""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import KubeObject, is_deleting
from controller_manager.controllers.storage.claimprotection import controller, pods
from controller_manager.controllers.storage.claimprotection.controller import (
    FINALIZER,
    ClaimProtectionReconciler,
)
from controller_manager.controllers.storage.claimprotection.pods import LivePods
from tests.simulation.planted import Bug

_uses = pods.uses


async def _find_no_pod(_: LivePods, __: KubeObject) -> Pod | None:
    return None


def _believe_in_deletions(pod: Pod, claim: KubeObject) -> bool:
    """Treat a pod as gone while its kubelet still stops it."""
    return not is_deleting(pod) and _uses(pod, claim)


def _look_at_deleted_claims(claim: KubeObject) -> bool:
    """Do not restore the finalizers of claims."""
    return not is_deleting(claim) or FINALIZER not in (claim.metadata.finalizers or ())


BUGS: Final[Mapping[str, Bug]] = {
    "release claims without asking the API server": Bug(
        0, LivePods, "user_of", _find_no_pod, "claim-of-an-unseen-pod"
    ),
    "release claims of pods that end": Bug(330, pods, "uses", _believe_in_deletions),
    "restore no finalizer": Bug(2, controller, "is_settled", _look_at_deleted_claims),
    "miss that a pod with claims is gone": Bug(
        0,
        ClaimProtectionReconciler,
        "watches",
        ClaimProtectionReconciler.watches[:2],
        "claim-of-an-unseen-pod",
    ),
}
