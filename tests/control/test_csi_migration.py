"""In-tree volumes become volumes of the drivers that have replaced their plugins."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.core.v1 import PodVolume
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.json_objects import JSON
from controller_manager.control.csi_migration import (
    DRIVERS,
    CSIVolume,
    UntranslatableError,
    csi_volume,
    inline_csi_volume,
)

_ZONE = "topology.kubernetes.io/zone"


def volume(source: JSON, **more: Any) -> PersistentVolume:
    metadata = {"name": "v", **more.pop("metadata", {})}
    obj = {"metadata": metadata, "spec": {**source, **more}}
    return msgspec.json.decode(msgspec.json.encode(obj), type=PersistentVolume)


def inline(source: JSON) -> PodVolume:
    return msgspec.convert({"name": "data", **source}, PodVolume)


_GCE = {"gcePersistentDisk": {"pdName": "disk"}}
_FILE = {"azureFile": {"secretName": "azure-storage-account-acc-secret"}}
_SHARE = {"azureFile": {**_FILE["azureFile"], "shareName": "share"}}


@pytest.mark.parametrize(
    ("source", "more", "driver", "handle"),
    [
        ({"csi": {"driver": "d", "volumeHandle": "h"}}, {}, "d", "h"),
        (
            {"awsElasticBlockStore": {"volumeID": "aws://eu-1a/vol-1"}},
            {},
            "ebs.csi.aws.com",
            "vol-1",
        ),
        (
            {"awsElasticBlockStore": {"volumeID": "vol-1"}},
            {},
            "ebs.csi.aws.com",
            "vol-1",
        ),
        (
            {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/1"}},
            {},
            "disk.csi.azure.com",
            "/subscriptions/1",
        ),
        (
            _SHARE,
            {"claimRef": {"namespace": "shop"}},
            "file.csi.azure.com",
            "#acc#share#v#shop",
        ),
        ({"cinder": {"volumeID": "c"}}, {}, "cinder.csi.openstack.org", "c"),
        (
            _GCE,
            {},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk",
        ),
        (
            _GCE,
            {"metadata": {"labels": {_ZONE: "us-east1-a"}}},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/us-east1-a/disks/disk",
        ),
        (
            _GCE,
            {"metadata": {"labels": {_ZONE: "us-east1-a__us-east1-b"}}},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/regions/us-east1/disks/disk",
        ),
        ({"portworxVolume": {"volumeID": "p"}}, {}, "pxd.portworx.com", "p"),
        (
            {"vsphereVolume": {"volumePath": "[store] disk.vmdk"}},
            {},
            "csi.vsphere.vmware.com",
            "[store] disk.vmdk",
        ),
    ],
)
def test_a_persistent_volume_has_the_handle_of_its_driver(
    source: JSON, more: JSON, driver: str, handle: str
) -> None:
    """Upstream: TranslateInTreePVToCSI of csi-translation-lib."""
    given = volume(source, **more)
    found = csi_volume(given)
    assert found == CSIVolume("v", driver, handle, migrated="csi" not in source)
    assert driver in DRIVERS.values() or driver == "d"


@pytest.mark.parametrize("source", [{"nfs": {}}, {"hostPath": {}}, {"iscsi": {}}])
def test_other_volumes_have_no_driver(source: JSON) -> None:
    """Their plugins still are in upstream's tree."""
    given = volume(source)
    assert csi_volume(given) is None


@pytest.mark.parametrize(
    ("source", "more"),
    [
        ({"awsElasticBlockStore": {"volumeID": "aws://zone/disk"}}, {}),
        (_SHARE, {}),
        (_GCE, {"metadata": {"labels": {_ZONE: "us-east1-a__eu-west1-b"}}}),
        (_GCE, {"metadata": {"labels": {_ZONE: "east__west"}}}),
    ],
)
def test_a_source_that_names_no_volume_is_refused(source: JSON, more: JSON) -> None:
    with pytest.raises(UntranslatableError):
        csi_volume(volume(source, **more))


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
    found = csi_volume(volume(_GCE, accessModes=modes))
    assert found is not None
    assert found.access_modes == known


@pytest.mark.parametrize(
    ("source", "name", "spec"),
    [
        (
            {"awsElasticBlockStore": {"volumeID": "vol-1", "fsType": "ext4"}},
            "ebs.csi.aws.com-vol-1",
            {
                "csi": {
                    "driver": "ebs.csi.aws.com",
                    "volumeHandle": "vol-1",
                    "fsType": "ext4",
                    "volumeAttributes": {"partition": "0"},
                },
                "accessModes": ["ReadWriteOnce"],
            },
        ),
        (
            {"azureDisk": {"diskName": "d", "diskURI": "/1", "cachingMode": "None"}},
            "disk.csi.azure.com-d",
            {
                "csi": {
                    "driver": "disk.csi.azure.com",
                    "volumeHandle": "/1",
                    "volumeAttributes": {
                        "kind": "Managed",
                        "csi-migration": "true",
                        "cachingMode": "None",
                    },
                },
                "accessModes": ["ReadWriteOnce"],
            },
        ),
        (
            _SHARE,
            "#acc#share#data#shop",
            {
                "csi": {
                    "driver": "file.csi.azure.com",
                    "volumeHandle": "#acc#share#data#shop",
                    "volumeAttributes": {"sharename": "share"},
                    "nodeStageSecretRef": {
                        "name": "azure-storage-account-acc-secret",
                        "namespace": "shop",
                    },
                },
                "accessModes": ["ReadWriteMany"],
            },
        ),
        (
            {"cinder": {"volumeID": "c", "readOnly": True}},
            "cinder.csi.openstack.org-c",
            {
                "csi": {
                    "driver": "cinder.csi.openstack.org",
                    "volumeHandle": "c",
                    "readOnly": True,
                },
                "accessModes": ["ReadWriteOnce"],
            },
        ),
        (
            {"gcePersistentDisk": {"pdName": "disk", "readOnly": True}},
            "pd.csi.storage.gke.io-disk",
            {
                "csi": {
                    "driver": "pd.csi.storage.gke.io",
                    "volumeHandle": "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk",
                    "readOnly": True,
                    "volumeAttributes": {"partition": ""},
                },
                "accessModes": ["ReadOnlyMany"],
                "volumeMode": "Filesystem",
            },
        ),
        (
            {"portworxVolume": {"volumeID": "p"}},
            "pxd.portworx.com-p",
            {
                "csi": {"driver": "pxd.portworx.com", "volumeHandle": "p"},
                "accessModes": ["ReadWriteOnce"],
            },
        ),
        (
            {"vsphereVolume": {"volumePath": "p", "storagePolicyName": "gold"}},
            "csi.vsphere.vmware.com-p",
            {
                "csi": {
                    "driver": "csi.vsphere.vmware.com",
                    "volumeHandle": "p",
                    "volumeAttributes": {"storagepolicyname": "gold"},
                },
                "accessModes": ["ReadWriteOnce"],
            },
        ),
    ],
)
def test_a_volume_that_a_pod_defines_itself_has_a_whole_spec(
    source: JSON, name: str, spec: JSON
) -> None:
    """The attacher of the driver has nothing else to go by."""
    found = inline_csi_volume(inline(source), "shop")
    assert found is not None
    assert (found.name, found.as_spec()) == (name, spec)


def test_a_pods_other_volumes_have_no_driver() -> None:
    claim = {"persistentVolumeClaim": {"claimName": "a"}}
    assert inline_csi_volume(inline(claim), "shop") is None
