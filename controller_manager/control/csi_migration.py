"""In-tree volumes, translated for the CSI drivers that replaced the in-tree plugins.

All of these plugins have been replaced completely, so no controller checks whether the
kubelet of a node has replaced them, too. Upstream: k8s.io/csi-translation-lib/plugins,
and pkg/volume/csimigration.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct

from controller_manager.api.core import volume_sources as sources
from controller_manager.api.core.v1 import PodVolume
from controller_manager.api.core.volumes import PersistentVolume, VolumeSpec
from controller_manager.api.meta import annotations_of, labels_of

READ_WRITE_ONCE: Final = "ReadWriteOnce"
READ_ONLY_MANY: Final = "ReadOnlyMany"
READ_WRITE_MANY: Final = "ReadWriteMany"

_UNSPECIFIED: Final = "UNSPECIFIED"
_BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_ZONE: Final = "topology.kubernetes.io/zone"
_ZONE_PARTS: Final = 3
_RESOURCE_GROUP: Final = "kubernetes.io/azure-file-resource-group"
_AZURE_SECRET: Final = re.compile(r"azure-storage-account-(.+)-secret")
_AWS_VOLUME: Final = re.compile(r"vol-[^/]*")


class UntranslatableError(ValueError):
    """An in-tree volume that names no volume of its CSI driver."""


class Plugin(NamedTuple):
    """An in-tree plugin, and the CSI driver that has replaced it."""

    name: str
    driver: str


_AWS: Final = Plugin("kubernetes.io/aws-ebs", "ebs.csi.aws.com")
_AZURE_DISK: Final = Plugin("kubernetes.io/azure-disk", "disk.csi.azure.com")
_AZURE_FILE: Final = Plugin("kubernetes.io/azure-file", "file.csi.azure.com")
_CINDER: Final = Plugin("kubernetes.io/cinder", "cinder.csi.openstack.org")
_GCE: Final = Plugin("kubernetes.io/gce-pd", "pd.csi.storage.gke.io")
_PORTWORX: Final = Plugin("kubernetes.io/portworx-volume", "pxd.portworx.com")
_VSPHERE: Final = Plugin("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com")

DRIVERS: Final[Mapping[str, str]] = dict(
    (_AWS, _AZURE_DISK, _AZURE_FILE, _CINDER, _GCE, _PORTWORX, _VSPHERE)
)
"""The CSI drivers by the in-tree plugins that they have replaced."""


class CSIVolume(Struct, frozen=True):
    """A volume of a CSI driver: its handle, its access modes, its attributes.

    `name` appears in events; it is made up for a volume that a pod defines itself.
    """

    name: str
    driver: str
    handle: str
    access_modes: tuple[str, ...] = ()
    read_only: bool = False
    fs_type: str = ""
    attributes: Mapping[str, str] = {}
    secret: tuple[str, str] | None = None
    migrated: bool = True

    def as_spec(self) -> dict[str, object]:
        """Return the spec of a persistent volume that has this volume, as JSON."""
        source: dict[str, object] = {"driver": self.driver, "volumeHandle": self.handle}
        if self.read_only:
            source["readOnly"] = True
        if self.fs_type:
            source["fsType"] = self.fs_type
        if self.attributes:
            source["volumeAttributes"] = dict(self.attributes)
        if self.secret is not None:
            name, namespace = self.secret
            source["nodeStageSecretRef"] = {"name": name, "namespace": namespace}
        spec: dict[str, object] = {
            "csi": source,
            "accessModes": list(self.access_modes),
        }
        if self.driver == _GCE.driver:
            spec["volumeMode"] = "Filesystem"
        return spec


def plugin_of(spec: VolumeSpec) -> Plugin | None:
    """Return the replaced plugin that a volume's source names, `None` for another."""
    found = _source_of(spec)
    return found[0] if found is not None else None


def csi_volume(volume: PersistentVolume) -> CSIVolume | None:
    """Return a persistent volume as its CSI driver sees it, `None` without one.

    Raises UntranslatableError if an in-tree source names no volume of the driver.
    """
    spec, name = volume.spec, volume.metadata.name
    modes = spec.access_modes or ()
    if spec.csi is not None:
        handle = spec.csi.volume_handle
        return CSIVolume(name, spec.csi.driver, handle, modes, migrated=False)
    found = _source_of(spec)
    if found is None:
        return None
    (plugin, source), handle = found, ""
    match source:
        case sources.GCEPersistentDiskSource():
            handle = _gce_handle(source.pd_name, _zones_of(volume))
            modes = _gce_modes(modes)
        case sources.AzureFileSource():
            handle = _azure_file_handle(volume, source)
        case sources.AzureDiskSource():
            handle = source.disk_uri
        case sources.AWSElasticBlockStoreSource():
            handle = _aws_handle(source.volume_id)
        case sources.VsphereVolumeSource():
            handle = source.volume_path
        case sources.CinderSource() | sources.PortworxVolumeSource():
            handle = source.volume_id
    return CSIVolume(name, plugin.driver, handle, modes)


def inline_csi_volume(volume: PodVolume, namespace: str) -> CSIVolume | None:
    """Return a pod's own volume as its CSI driver sees it, `None` without one.

    Raises UntranslatableError if the source names no volume of the driver.
    """
    found = _source_of(volume)
    if found is None:
        return None
    plugin, source = found
    match source:
        case sources.AWSElasticBlockStoreSource():
            return _inline_aws(source)
        case sources.AzureDiskSource():
            return _inline_azure_disk(source)
        case sources.AzureFileSource():
            return _inline_azure_file(volume.name, source, namespace)
        case sources.GCEPersistentDiskSource():
            return _inline_gce(source)
        case sources.VsphereVolumeSource():
            return _inline_vsphere(source)
        case sources.CinderSource():
            modes, read_only = (READ_WRITE_ONCE,), source.read_only
        case _:
            modes = (READ_ONLY_MANY if source.read_only else READ_WRITE_ONCE,)
            read_only = False
    handle = source.volume_id
    name = f"{plugin.driver}-{handle}"
    return CSIVolume(name, plugin.driver, handle, modes, read_only, source.fs_type)


_Source = (
    sources.AWSElasticBlockStoreSource
    | sources.AzureDiskSource
    | sources.AzureFileSource
    | sources.CinderSource
    | sources.GCEPersistentDiskSource
    | sources.PortworxVolumeSource
    | sources.VsphereVolumeSource
)

_SOURCES: Final[tuple[tuple[Plugin, Callable[..., _Source | None]], ...]] = (
    (_AWS, lambda has: has.aws_elastic_block_store),
    (_AZURE_DISK, lambda has: has.azure_disk),
    (_AZURE_FILE, lambda has: has.azure_file),
    (_CINDER, lambda has: has.cinder),
    (_GCE, lambda has: has.gce_persistent_disk),
    (_PORTWORX, lambda has: has.portworx_volume),
    (_VSPHERE, lambda has: has.vsphere_volume),
)


def _source_of(has: VolumeSpec | PodVolume) -> tuple[Plugin, _Source] | None:
    for plugin, read in _SOURCES:
        if (source := read(has)) is not None:
            return plugin, source
    return None


def _inline_aws(source: sources.AWSElasticBlockStoreSource) -> CSIVolume:
    handle = _aws_handle(source.volume_id)
    return CSIVolume(
        f"{_AWS.driver}-{handle}",
        _AWS.driver,
        handle,
        (READ_WRITE_ONCE,),
        source.read_only,
        source.fs_type,
        {"partition": str(source.partition)},
    )


def _aws_handle(volume_id: str) -> str:
    """Return ``vol-1`` for ``aws://zone/vol-1``, and any other text as it is."""
    if not volume_id.startswith("aws://"):
        return volume_id
    found = urlsplit(volume_id).path.strip("/")
    if _AWS_VOLUME.fullmatch(found) is None:
        msg = f"{volume_id!r} is no volume of AWS: it must be like aws://zone/vol-1"
        raise UntranslatableError(msg)
    return found


def _inline_azure_disk(source: sources.AzureDiskSource) -> CSIVolume:
    attributes = {"kind": source.kind or "Managed", "csi-migration": "true"}
    if source.caching_mode:
        attributes["cachingMode"] = source.caching_mode
    if source.fs_type is not None:
        attributes["fsType"] = source.fs_type
    return CSIVolume(
        f"{_AZURE_DISK.driver}-{source.disk_name}",
        _AZURE_DISK.driver,
        source.disk_uri,
        (READ_WRITE_ONCE,),
        bool(source.read_only),
        source.fs_type or "",
        attributes,
    )


def _azure_account(secret: str) -> str:
    matched = _AZURE_SECRET.search(secret)
    return matched[1] if matched is not None else secret


def _azure_file_handle(
    volume: PersistentVolume, source: sources.AzureFileSource
) -> str:
    group = annotations_of(volume.metadata).get(_RESOURCE_GROUP, "")
    claim = volume.spec.claim_ref
    namespace = source.secret_namespace
    if namespace is None and claim is not None:
        namespace = claim.namespace
    if not namespace:
        msg = "neither secretNamespace nor claimRef names the namespace of the secret"
        raise UntranslatableError(msg)
    parts = (group, _azure_account(source.secret_name), source.share_name)
    return "#".join((*parts, volume.metadata.name, namespace))


def _inline_azure_file(
    volume: str, source: sources.AzureFileSource, namespace: str
) -> CSIVolume:
    account = _azure_account(source.secret_name)
    handle = f"#{account}#{source.share_name}#{volume}#{namespace}"
    return CSIVolume(
        handle,
        _AZURE_FILE.driver,
        handle,
        (READ_WRITE_MANY,),
        source.read_only,
        attributes={"sharename": source.share_name},
        secret=(source.secret_name, namespace),
    )


def _inline_gce(source: sources.GCEPersistentDiskSource) -> CSIVolume:
    return CSIVolume(
        f"{_GCE.driver}-{source.pd_name}",
        _GCE.driver,
        _gce_handle(source.pd_name, ()),
        (READ_ONLY_MANY if source.read_only else READ_WRITE_ONCE,),
        source.read_only,
        source.fs_type,
        {"partition": str(source.partition) if source.partition else ""},
    )


def _zones_of(volume: PersistentVolume) -> tuple[str, ...]:
    labels = labels_of(volume)
    zones = labels.get(_BETA_ZONE) or labels.get(_ZONE) or ""
    return tuple(zones.split("__")) if zones else ()


def _gce_handle(name: str, zones: tuple[str, ...]) -> str:
    """Return the handle of a disk of one zone, of a region, or of an unknown zone."""
    project = f"projects/{_UNSPECIFIED}"
    if len(zones) > 1:
        return f"{project}/regions/{_region_of(zones)}/disks/{name}"
    zone = zones[0] if zones else _UNSPECIFIED
    return f"{project}/zones/{zone}/disks/{name}"


def _region_of(zones: Iterable[str]) -> str:
    parts = [zone.split("-") for zone in zones]
    regions = {"-".join(each[:2]) for each in parts}
    if len(regions) != 1 or any(len(each) != _ZONE_PARTS for each in parts):
        msg = f"the zones {', '.join(zones)} are not of one region"
        raise UntranslatableError(msg)
    return regions.pop()


def _gce_modes(modes: tuple[str, ...]) -> tuple[str, ...]:
    """Return access modes that the driver knows (backwardCompatibleAccessModes)."""
    if not modes:
        return ()
    return (READ_ONLY_MANY,) if set(modes) == {READ_ONLY_MANY} else (READ_WRITE_ONCE,)


def _inline_vsphere(source: sources.VsphereVolumeSource) -> CSIVolume:
    policy = source.storage_policy_name
    return CSIVolume(
        f"{_VSPHERE.driver}-{source.volume_path}",
        _VSPHERE.driver,
        source.volume_path,
        (READ_WRITE_ONCE,),
        fs_type=source.fs_type,
        attributes={"storagepolicyname": policy} if policy else {},
    )
