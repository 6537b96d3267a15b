"""Deliberate bugs of the protection of claims."""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import KubeObject, is_deleting
from controller_manager.controllers.storage.claimprotection import reconciler, use
from controller_manager.controllers.storage.claimprotection.live_pods import LivePods
from controller_manager.controllers.storage.claimprotection.reconciler import (
    FINALIZER,
    ClaimProtectionReconciler,
)
from tests.simulation.planted import Bug

_uses = use.uses


async def _ask_nobody(_: LivePods, __: KubeObject) -> Pod | None:
    return None


def _believe_in_deletions(pod: Pod, claim: KubeObject) -> bool:
    """Treat a pod as gone while its kubelet still ends it."""
    return not is_deleting(pod) and _uses(pod, claim)


def _look_at_deleted_claims(claim: KubeObject) -> bool:
    """Leave claims that have lost their finalizer without it."""
    return not is_deleting(claim) or FINALIZER not in (claim.metadata.finalizers or ())


BUGS: Final[Mapping[str, Bug]] = {
    "release claims by what the cache shows": Bug(
        0, LivePods, "user_of", _ask_nobody, "claim-of-an-unseen-pod"
    ),
    "release claims of pods that end": Bug(330, use, "uses", _believe_in_deletions),
    "restore no finalizer": Bug(2, reconciler, "is_settled", _look_at_deleted_claims),
    "miss that a pod is gone": Bug(
        0,
        ClaimProtectionReconciler,
        "watches",
        ClaimProtectionReconciler.watches[:2],
        "claim-of-an-unseen-pod",
    ),
}
