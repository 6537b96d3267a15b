"""Pods by their node and by the claims that they name.

Upstream: AddPodNodeNameIndexer of pkg/controller, and PodPVCIndexFunc of
pkg/controller/volume/common.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from controller_manager.api.core.v1 import Pod, PodVolume
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.store import Index


def _node_of(pod: Pod) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


PODS_BY_NODE: Final = Index("node", _node_of, depends_on=DependsOn("spec.nodeName"))
"""Pods by the name of the node that they are bound to."""


def claim_name(pod: Pod, volume: PodVolume) -> str:
    """Return the name of a volume's claim, "" if it has none.

    The claim of an ephemeral volume is named after the pod and the volume.
    """
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return ""


def claim_names(pod: Pod) -> Iterator[str]:
    """Yield the names of the claims that a pod's volumes refer to."""
    for volume in pod.spec.volumes or ():
        if name := claim_name(pod, volume):
            yield name


def _claim_keys(pod: Pod) -> Iterable[str]:
    return [f"{pod.metadata.namespace}/{name}" for name in claim_names(pod)]


PODS_BY_CLAIM: Final = Index(
    "claim", _claim_keys, depends_on=DependsOn(reading=("spec.volumes",))
)
"""Pods by the keys of their claims; the volumes of a pod never change."""
