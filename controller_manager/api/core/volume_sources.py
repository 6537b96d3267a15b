"""core/v1: where the data of volumes is, as persistent volumes and pods name it."""

from msgspec import field

from controller_manager.api.meta import APIStruct


class SecretReference(APIStruct, frozen=True):
    """A secret, in any namespace."""

    name: str = ""
    namespace: str = ""


class CSIVolumeSource(APIStruct, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: dict[str, str] | None = None
    controller_publish_secret_ref: SecretReference | None = None
    controller_expand_secret_ref: SecretReference | None = None


class AWSElasticBlockStoreSource(APIStruct, frozen=True):
    """A disk of AWS."""

    volume_id: str = field(default="", name="volumeID")
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class GCEPersistentDiskSource(APIStruct, frozen=True):
    """A disk of Google's cloud."""

    pd_name: str = ""
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class AzureDiskSource(APIStruct, frozen=True):
    """A disk of Azure."""

    disk_name: str = ""
    disk_uri: str = field(default="", name="diskURI")
    caching_mode: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    kind: str | None = None


class AzureFileSource(APIStruct, frozen=True):
    """A share of files of Azure."""

    secret_name: str = ""
    share_name: str = ""
    read_only: bool = False
    secret_namespace: str | None = None


class CinderSource(APIStruct, frozen=True):
    """A disk of OpenStack."""

    volume_id: str = field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class VsphereVolumeSource(APIStruct, frozen=True):
    """A disk of vSphere."""

    volume_path: str = ""
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = field(default="", name="storagePolicyID")


class PortworxVolumeSource(APIStruct, frozen=True):
    """A volume of Portworx."""

    volume_id: str = field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class HostPathSource(APIStruct, frozen=True):
    """A directory of a node."""

    path: str = ""


class FlexVolumeSource(APIStruct, frozen=True):
    """A volume of a flex volume plugin."""

    driver: str = ""


class OtherSource(APIStruct, frozen=True):
    """A source of which controllers read only that it is there."""


class FCSource(APIStruct, frozen=True):
    """A disk behind Fibre Channel: by target and number, or by its own names."""

    target_wwns: tuple[str, ...] | None = field(default=None, name="targetWWNs")
    lun: int | None = None
    wwids: tuple[str, ...] | None = None


class ISCSISource(APIStruct, frozen=True):
    """A disk behind iSCSI."""

    target_portal: str = ""
    iqn: str = ""
    lun: int = 0
