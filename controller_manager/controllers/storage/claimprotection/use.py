"""Which claims a pod uses (podUsesPVC of pvc_protection_controller.go)."""

from collections.abc import Iterable

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import KubeObject, is_deleting
from controller_manager.api.owners import is_controlled_by
from controller_manager.control.pods_by_claim import claim_name


def user_among(pods: Iterable[Pod], claim: KubeObject) -> Pod | None:
    """Return a pod that uses a claim, `None` if none of them does."""
    return next((each for each in pods if uses(each, claim)), None)


def uses(pod: Pod, claim: KubeObject) -> bool:
    """Tell whether a pod of the claim's namespace uses the claim.

    A pod without a node does not: no kubelet starts a pod whose claim is being deleted.
    A pod that has ended does, until it is gone.
    """
    if not pod.spec.node_name:
        return False
    owns = is_controlled_by(claim, pod)
    if owns and _is_done(pod):
        return False
    return any(
        claim_name(pod, volume) == claim.metadata.name
        and (volume.persistent_volume_claim is not None or owns)
        for volume in pod.spec.volumes or ()
    )


def _is_done(pod: Pod) -> bool:
    """Tell whether a pod does not need its own claims any more.

    The kubelet is done with a pod that is being deleted without a grace period. If the
    pod is deleted in the foreground, it stands until its own claims are gone: those of
    ephemeral volumes, and those that a stateful set gave to it (there upstream waits
    for ever).
    """
    return is_deleting(pod) and pod.metadata.deletion_grace_period_seconds == 0
