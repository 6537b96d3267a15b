"""The claims of a pod's ephemeral volumes.

Upstream: component-helpers/storage/ephemeral, and handleVolume of
pkg/controller/volume/ephemeral/controller.go.
"""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.v1 import ClaimTemplate, Pod, PodVolume
from controller_manager.api.meta import KubeObject, ObjectMeta, key_of
from controller_manager.api.owners import controller_reference, is_controlled_by
from controller_manager.control.pods_by_claim import claim_name

_EMPTY: Final = ClaimTemplate()


def ephemeral_volumes(pod: Pod) -> Iterator[PodVolume]:
    """Yield the volumes of a pod for which claims are made, in their order."""
    return (each for each in pod.spec.volumes or () if each.ephemeral is not None)


def conflict(pod: KubeObject, claim: KubeObject) -> str:
    """Return why the pod does not own a claim, "" if it does (VolumeIsForPod)."""
    if is_controlled_by(claim, pod):
        return ""
    return (
        f"PVC {key_of(claim)} was not created for pod {key_of(pod)} (pod is not owner)"
    )


def claim_of(pod: Pod, volume: PodVolume) -> PersistentVolumeClaim:
    """Return the claim to create for an ephemeral volume; the pod owns it.

    It has the labels, the annotations and the spec of the template.
    """
    source = volume.ephemeral
    template = (source and source.volume_claim_template) or _EMPTY
    metadata = ObjectMeta(
        name=claim_name(pod, volume),
        namespace=pod.metadata.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=(controller_reference(pod, "v1", "Pod"),),
    )
    return PersistentVolumeClaim(metadata=metadata, raw_spec=template.spec)
