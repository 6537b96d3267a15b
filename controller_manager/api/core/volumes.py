"""core/v1: persistent volumes, and the sources of the volumes."""

from functools import cached_property
from typing import Final

from msgspec import Raw, field
from msgspec.json import Decoder
from msgspec.structs import force_setattr

from controller_manager.api.meta import (
    APIStruct,
    CompleteObject,
    Resource,
    annotations_of,
)

from . import volume_sources
from .scheduling import NodeSelector
from .v1 import ObjectReference

BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""The annotation that named the class before there was a field; it still wins."""

PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"
"""The annotation of a volume with the capacity that its file system has until a kubelet
has expanded it: a claim that is bound to the volume later is expanded, too."""

AVAILABLE: Final = "Available"
BOUND: Final = "Bound"
RELEASED: Final = "Released"
FAILED: Final = "Failed"

RETAIN: Final = "Retain"
DELETE: Final = "Delete"
RECYCLE: Final = "Recycle"


class VolumeNodeAffinity(APIStruct, frozen=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class VolumeSpec(APIStruct, frozen=True):
    """The fields of a volume's spec that controllers read."""

    capacity: dict[str, str] | None = None
    access_modes: tuple[str, ...] | None = None
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    mount_options: tuple[str, ...] | None = None
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    aws_elastic_block_store: volume_sources.AWSElasticBlockStoreSource | None = None
    azure_disk: volume_sources.AzureDiskSource | None = None
    azure_file: volume_sources.AzureFileSource | None = None
    cephfs: volume_sources.OtherSource | None = None
    cinder: volume_sources.CinderSource | None = None
    csi: volume_sources.CSIVolumeSource | None = None
    fc: volume_sources.FCSource | None = None
    flex_volume: volume_sources.FlexVolumeSource | None = None
    flocker: volume_sources.OtherSource | None = None
    gce_persistent_disk: volume_sources.GCEPersistentDiskSource | None = None
    glusterfs: volume_sources.OtherSource | None = None
    host_path: volume_sources.HostPathSource | None = None
    iscsi: volume_sources.ISCSISource | None = None
    local: volume_sources.OtherSource | None = None
    nfs: volume_sources.OtherSource | None = None
    photon_persistent_disk: volume_sources.OtherSource | None = None
    portworx_volume: volume_sources.PortworxVolumeSource | None = None
    quobyte: volume_sources.OtherSource | None = None
    rbd: volume_sources.OtherSource | None = None
    scale_io: volume_sources.OtherSource | None = field(default=None, name="scaleIO")
    storageos: volume_sources.OtherSource | None = None
    vsphere_volume: volume_sources.VsphereVolumeSource | None = None


class VolumeStatus(APIStruct, frozen=True):
    """All of a volume's status."""

    phase: str = ""
    message: str = ""
    reason: str = ""
    last_phase_transition_time: str | None = None


_SPEC: Final = Decoder(VolumeSpec)
_STATUS: Final = Decoder(VolumeStatus)


# A struct with a __dict__ is tracked by the garbage collector.
class PersistentVolume(CompleteObject, frozen=True, dict=True, gc=True):
    """A volume of the cluster, complete: a PUT sends back every field that came.

    Spec and status are kept as bytes; `spec` and `status` are views of them, decoded
    when they are first read.
    """

    raw_spec: Raw = field(default=Raw(b"{}"), name="spec")
    raw_status: Raw = field(default=Raw(b"{}"), name="status")

    def __post_init__(self) -> None:
        """Copy the bytes out of the message that they were decoded from."""
        force_setattr(self, "raw_spec", self.raw_spec.copy())
        force_setattr(self, "raw_status", self.raw_status.copy())

    @cached_property
    def spec(self) -> VolumeSpec:
        """The fields of the spec that controllers read."""
        return _SPEC.decode(self.raw_spec)

    @cached_property
    def status(self) -> VolumeStatus:
        """The fields of the status that controllers read."""
        return _STATUS.decode(self.raw_status)


PERSISTENT_VOLUMES: Resource[PersistentVolume] = Resource(
    "",
    "v1",
    "persistentvolumes",
    "PersistentVolume",
    PersistentVolume,
    namespaced=False,
)
"""The volumes: complete, in the cache as well, because some controllers PUT them."""


def claim_key(volume: PersistentVolume) -> str:
    """Return the key of the claim that a volume refers to, "" for none."""
    reference = volume.spec.claim_ref
    return "" if reference is None else f"{reference.namespace}/{reference.name}"


def storage_class_of(volume: PersistentVolume) -> str:
    """Return the name of a volume's storage class, "" for none.

    Upstream: GetPersistentVolumeClass.
    """
    annotation = annotations_of(volume.metadata).get(BETA_STORAGE_CLASS)
    return annotation if annotation is not None else volume.spec.storage_class_name
