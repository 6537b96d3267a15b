"""Which claims a pod uses (podUsesPVC of pvc_protection_controller.go)."""

from collections.abc import Iterable, Iterator
from typing import Final

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import KubeObject, is_deleting
from controller_manager.api.owners import is_controlled_by
from controller_manager.api.pods import claim_name_of
from controller_manager.informers.indexes import Index


def claim_names(pod: Pod) -> Iterator[str]:
    """Yield the names of the claims that a pod's volumes refer to."""
    for volume in pod.spec.volumes or ():
        if name := claim_name_of(pod, volume):
            yield name


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
        claim_name_of(pod, volume) == claim.metadata.name
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


def _claim_keys(pod: Pod) -> Iterable[str]:
    return [f"{pod.metadata.namespace}/{name}" for name in claim_names(pod)]


def _is_same_pod(old: Pod, new: Pod) -> bool:
    return old.metadata.uid == new.metadata.uid


BY_CLAIM: Final = Index("claim", _claim_keys, _is_same_pod)
"""Pods by the keys of their claims; the volumes of a pod never change."""
