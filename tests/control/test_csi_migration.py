"""In-tree volumes and the drivers that have replaced their plugins."""

from typing import Any

import msgspec
import pytest
import yaml

from controller_manager.api.core.v1 import PodVolume
from controller_manager.api.core.volume_sources import FCSource, ISCSISource
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.json_objects import JSON
from controller_manager.control import csi_migration
from controller_manager.control.volumes import disk_name

_ZONE = "topology.kubernetes.io/zone"


def rows(text: str) -> list[Any]:
    found: list[Any] = yaml.safe_load(text)
    return found


def volume(source: JSON, **more: Any) -> PersistentVolume:
    zone = {_ZONE: more.pop("zone")} if "zone" in more else {}
    obj = {"metadata": {"name": "v", "labels": zone}, "spec": {**source, **more}}
    return msgspec.json.decode(msgspec.json.encode(obj), type=PersistentVolume)


def inline(source: JSON) -> PodVolume:
    return msgspec.convert({"name": "data", **source}, PodVolume)


GCE = {"gcePersistentDisk": {"pdName": "disk"}}


@pytest.mark.parametrize(
    ("source", "more", "driver", "handle"),
    rows("""
- [{csi: {driver: d, volumeHandle: h}}, {}, d, h]
- [{awsElasticBlockStore: {volumeID: 'aws://eu-1a/vol-1'}}, {}, ebs.csi.aws.com, vol-1]
- [{awsElasticBlockStore: {volumeID: vol-1}}, {}, ebs.csi.aws.com, vol-1]
- - azureDisk: {diskName: d, diskURI: /subscriptions/1}
  - {}
  - disk.csi.azure.com
  - /subscriptions/1
- - azureFile: {secretName: azure-storage-account-acc-secret, shareName: share}
  - claimRef: {namespace: shop}
  - file.csi.azure.com
  - '#acc#share#v#shop'
- [{cinder: {volumeID: c}}, {}, cinder.csi.openstack.org, c]
- - &gce {gcePersistentDisk: {pdName: disk}}
  - {}
  - pd.csi.storage.gke.io
  - projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk
- - *gce
  - {zone: us-east1-a}
  - pd.csi.storage.gke.io
  - projects/UNSPECIFIED/zones/us-east1-a/disks/disk
- - *gce
  - {zone: us-east1-a__us-east1-b}
  - pd.csi.storage.gke.io
  - projects/UNSPECIFIED/regions/us-east1/disks/disk
- [{portworxVolume: {volumeID: p}}, {}, pxd.portworx.com, p]
- - vsphereVolume: {volumePath: '[store] disk.vmdk'}
  - {}
  - csi.vsphere.vmware.com
  - '[store] disk.vmdk'
"""),
)
def test_a_persistent_volume_has_the_handle_of_its_driver(
    source: JSON, more: JSON, driver: str, handle: str
) -> None:
    """Upstream: TranslateInTreePVToCSI of csi-translation-lib."""
    found = csi_migration.csi_volume(volume(source, **more))
    assert found == csi_migration.CSIVolume(
        "v", driver, handle, migrated="csi" not in source
    )
    assert driver in csi_migration.DRIVERS.values() or driver == "d"


@pytest.mark.parametrize("source", [{"nfs": {}}, {"hostPath": {}}, {"iscsi": {}}])
def test_other_volumes_have_no_driver(source: JSON) -> None:
    """Their plugins still are in upstream's tree."""
    assert csi_migration.csi_volume(volume(source)) is None


@pytest.mark.parametrize(
    ("source", "more"),
    rows("""
- [{awsElasticBlockStore: {volumeID: 'aws://zone/disk'}}, {}]
- [{azureFile: {secretName: azure-storage-account-acc-secret, shareName: share}}, {}]
- [&gce {gcePersistentDisk: {pdName: disk}}, {zone: us-east1-a__eu-west1-b}]
- [*gce, {zone: east__west}]
"""),
)
def test_a_source_that_names_no_volume_is_refused(source: JSON, more: JSON) -> None:
    with pytest.raises(csi_migration.UntranslatableError):
        csi_migration.csi_volume(volume(source, **more))


@pytest.mark.parametrize(
    ("modes", "known"),
    [
        ([], ()),
        (["ReadWriteMany"], ("ReadWriteOnce",)),
        (["ReadOnlyMany"], ("ReadOnlyMany",)),
        (["ReadOnlyMany", "ReadWriteOnce"], ("ReadWriteOnce",)),
    ],
)
def test_disks_of_google_get_access_modes_that_the_driver_knows(
    modes: list[str], known: tuple[str, ...]
) -> None:
    """Upstream: backwardCompatibleAccessModes."""
    found = csi_migration.csi_volume(volume(GCE, accessModes=modes))
    assert found is not None
    assert found.access_modes == known


@pytest.mark.parametrize(
    ("source", "name", "csi", "mode", "more"),
    rows("""
- - awsElasticBlockStore: {volumeID: vol-1, fsType: ext4}
  - ebs.csi.aws.com-vol-1
  - driver: ebs.csi.aws.com
    volumeHandle: vol-1
    fsType: ext4
    volumeAttributes: {partition: '0'}
  - ReadWriteOnce
  - {}
- - azureDisk: {diskName: d, diskURI: /1, cachingMode: None}
  - disk.csi.azure.com-d
  - driver: disk.csi.azure.com
    volumeHandle: /1
    volumeAttributes: {kind: Managed, csi-migration: 'true', cachingMode: None}
  - ReadWriteOnce
  - {}
- - azureFile: {secretName: azure-storage-account-acc-secret, shareName: share}
  - '#acc#share#data#shop'
  - driver: file.csi.azure.com
    volumeHandle: '#acc#share#data#shop'
    volumeAttributes: {sharename: share}
    nodeStageSecretRef: {name: azure-storage-account-acc-secret, namespace: shop}
  - ReadWriteMany
  - {}
- - cinder: {volumeID: c, readOnly: true}
  - cinder.csi.openstack.org-c
  - {driver: cinder.csi.openstack.org, volumeHandle: c, readOnly: true}
  - ReadWriteOnce
  - {}
- - gcePersistentDisk: {pdName: disk, readOnly: true}
  - pd.csi.storage.gke.io-disk
  - driver: pd.csi.storage.gke.io
    volumeHandle: projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk
    readOnly: true
    volumeAttributes: {partition: ''}
  - ReadOnlyMany
  - {volumeMode: Filesystem}
- - portworxVolume: {volumeID: p}
  - pxd.portworx.com-p
  - {driver: pxd.portworx.com, volumeHandle: p}
  - ReadWriteOnce
  - {}
- - vsphereVolume: {volumePath: p, storagePolicyName: gold}
  - csi.vsphere.vmware.com-p
  - driver: csi.vsphere.vmware.com
    volumeHandle: p
    volumeAttributes: {storagepolicyname: gold}
  - ReadWriteOnce
  - {}
"""),
)
def test_a_volume_that_a_pod_defines_itself_has_a_whole_spec(
    source: JSON, name: str, csi: JSON, mode: str, more: JSON
) -> None:
    """The attacher of the driver has nothing else to go by."""
    found = csi_migration.inline_csi_volume(inline(source), "shop")
    assert found is not None
    expected = {"csi": csi, "accessModes": [mode], **more}
    assert (found.name, found.as_spec()) == (name, expected)


def test_a_pods_other_volumes_have_no_driver() -> None:
    claim = {"persistentVolumeClaim": {"claimName": "a"}}
    assert csi_migration.inline_csi_volume(inline(claim), "shop") is None


@pytest.mark.parametrize(
    ("iscsi", "fc", "name"),
    [
        (None, None, ""),
        (
            ISCSISource("10.0.0.1:3260", "iqn.2026", 0),
            None,
            "kubernetes.io/iscsi/10.0.0.1:3260:iqn.2026:0",
        ),
        (None, FCSource(("a", "b"), 0), "kubernetes.io/fc/[a b]:0"),
        (None, FCSource(("a",), None, ("w", "x")), "kubernetes.io/fc/[w x]"),
        (None, FCSource((), 1, ("w",)), "kubernetes.io/fc/[w]"),
        (None, FCSource(("a",)), ""),
    ],
)
def test_a_disk_has_the_name_that_kubelets_use(
    iscsi: ISCSISource | None, fc: FCSource | None, name: str
) -> None:
    """A disk of Fibre Channel is named by target and number, or by its own names."""
    assert disk_name(iscsi, fc) == name
