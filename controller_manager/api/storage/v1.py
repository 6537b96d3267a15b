"""storage.k8s.io/v1: attachments of volumes, CSI drivers and storage classes."""

from typing import Final

from msgspec import Raw, field
from msgspec.structs import force_setattr

from controller_manager.api.meta import (
    APIStruct,
    CompleteObject,
    PartialMetadata,
    Projection,
    Resource,
)

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
"""The annotation of a CSINode that lists the plugins that its kubelet has migrated."""

IS_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
"""The annotation that makes a storage class the default, if its value is ``true``."""

BETA_IS_DEFAULT_CLASS: Final = "storageclass.beta.kubernetes.io/is-default-class"
"""The former name of this annotation; it still counts."""

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"


_NO_SPEC: Final = Raw(b"null")


class VolumeAttachmentSource(APIStruct, frozen=True):
    """The volume to attach: a persistent volume, or a volume that a pod defines itself.

    The spec of a pod's own volume is kept as bytes, complete and not decoded.
    """

    persistent_volume_name: str | None = None
    inline_volume_spec: Raw = _NO_SPEC

    def __post_init__(self) -> None:
        """Copy the bytes out of the message that they were decoded from."""
        if self.inline_volume_spec is not _NO_SPEC:
            force_setattr(self, "inline_volume_spec", self.inline_volume_spec.copy())


class VolumeAttachmentSpec(APIStruct, frozen=True):
    """All of a volume attachment's spec."""

    attacher: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()
    node_name: str = ""


class VolumeError(APIStruct, frozen=True):
    """An error that a CSI driver reported."""

    time: str | None = None
    message: str = ""
    error_code: int | None = None


class VolumeAttachmentStatus(APIStruct, frozen=True):
    """All of a volume attachment's status."""

    attached: bool = False
    attachment_metadata: dict[str, str] | None = None
    attach_error: VolumeError | None = None
    detach_error: VolumeError | None = None


class VolumeAttachment(CompleteObject, frozen=True):
    """A request to attach a volume to a node, and the report of the CSI driver."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()


VOLUME_ATTACHMENTS: Resource[VolumeAttachment] = Resource(
    "storage.k8s.io",
    "v1",
    "volumeattachments",
    "VolumeAttachment",
    VolumeAttachment,
    namespaced=False,
)


class InlineCSISource(APIStruct, frozen=True):
    """The volume of a CSI driver that a pod defines itself."""

    driver: str = ""
    volume_handle: str = ""


class InlineVolumeSpec(APIStruct, frozen=True):
    """The fields of the spec of a pod's own volume that controllers read."""

    csi: InlineCSISource | None = None


class AttachmentSource(APIStruct, frozen=True):
    """The volume of an attachment, as controllers read it."""

    persistent_volume_name: str | None = None
    inline_volume_spec: InlineVolumeSpec | None = None


class AttachmentSpec(APIStruct, frozen=True):
    """The fields of an attachment's spec that controllers read."""

    attacher: str = ""
    source: AttachmentSource = AttachmentSource()
    node_name: str = ""


class AttachmentError(APIStruct, frozen=True):
    """The message of an error that a CSI driver reported."""

    message: str = ""


class AttachmentStatus(APIStruct, frozen=True):
    """The fields of an attachment's status that controllers read."""

    attached: bool = False
    attach_error: AttachmentError | None = None
    detach_error: AttachmentError | None = None


class Attachment(Projection, frozen=True):
    """A projection of a volume attachment."""

    spec: AttachmentSpec = AttachmentSpec()
    status: AttachmentStatus = AttachmentStatus()


ATTACHMENTS: Resource[Attachment] = Resource(
    "storage.k8s.io",
    "v1",
    "volumeattachments",
    "VolumeAttachment",
    Attachment,
    namespaced=False,
)
"""The attachments in caches; `VOLUME_ATTACHMENTS` are complete, to be written."""


class CSIDriverSpec(APIStruct, frozen=True):
    """The fields of a CSI driver's spec that controllers read."""

    attach_required: bool | None = None
    se_linux_mount: bool | None = field(default=None, name="seLinuxMount")


class CSIDriver(Projection, frozen=True):
    """A projection of a CSI driver; its name is that of the driver."""

    spec: CSIDriverSpec = CSIDriverSpec()


CSI_DRIVERS: Resource[CSIDriver] = Resource(
    "storage.k8s.io", "v1", "csidrivers", "CSIDriver", CSIDriver, namespaced=False
)


class CSINodeAnnotations(APIStruct, frozen=True):
    """The only annotation of a CSINode that controllers read."""

    migrated_plugins: str | None = field(default=None, name=MIGRATED_PLUGINS)


class CSINodeMeta(PartialMetadata, frozen=True):
    """The metadata of a CSINode that controllers read."""

    annotations: CSINodeAnnotations | None = None


class CSINodeDriver(APIStruct, frozen=True):
    """A CSI driver that is installed on a node."""

    name: str = ""


class CSINodeSpec(APIStruct, frozen=True):
    """The fields of a CSINode's spec that controllers read."""

    drivers: tuple[CSINodeDriver, ...] | None = None


class CSINode(Projection, frozen=True):
    """A projection of a CSINode: the CSI drivers of the node of the same name."""

    metadata: CSINodeMeta = CSINodeMeta()
    spec: CSINodeSpec = CSINodeSpec()


CSI_NODES: Resource[CSINode] = Resource(
    "storage.k8s.io", "v1", "csinodes", "CSINode", CSINode, namespaced=False
)


class StorageClassAnnotations(APIStruct, frozen=True):
    """The only annotations of a storage class that controllers read."""

    is_default: str | None = field(default=None, name=IS_DEFAULT_CLASS)
    beta_is_default: str | None = field(default=None, name=BETA_IS_DEFAULT_CLASS)


class StorageClassMeta(PartialMetadata, frozen=True):
    """The metadata of a storage class that controllers read."""

    annotations: StorageClassAnnotations | None = None


class StorageClass(Projection, frozen=True):
    """A projection of a storage class: the provisioner of its volumes, and the time."""

    metadata: StorageClassMeta = StorageClassMeta()
    provisioner: str = ""
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None
    allow_volume_expansion: bool | None = None


STORAGE_CLASSES: Resource[StorageClass] = Resource(
    "storage.k8s.io",
    "v1",
    "storageclasses",
    "StorageClass",
    StorageClass,
    namespaced=False,
)


class VolumeAttributesClass(CompleteObject, frozen=True):
    """Attributes that volumes of a CSI driver can have."""

    driver_name: str = ""
    parameters: dict[str, str] | None = None


VOLUME_ATTRIBUTES_CLASSES: Resource[VolumeAttributesClass] = Resource(
    "storage.k8s.io",
    "v1",
    "volumeattributesclasses",
    "VolumeAttributesClass",
    VolumeAttributesClass,
    namespaced=False,
)
