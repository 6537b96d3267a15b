"""The CSI driver of the development cluster, and the classes of its volumes."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.storage.default_class import IS_DEFAULT

DRIVER: Final = "devcluster"
"""The name of the CSI driver, and of the provisioner of its storage classes."""

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
ON_DEMAND: Final = "WaitForFirstConsumer"

_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_PLUGINS: Final = (
    "aws-ebs",
    "azure-disk",
    "azure-file",
    "cinder",
    "gce-pd",
    "portworx-volume",
    "vsphere-volume",
)
"""The plugins whose volumes CSI drivers have taken over."""


def storage_classes() -> Iterator[JSON]:
    """Return the storage classes of a new cluster; the first one is the default."""
    for name, mode, default in (
        ("standard", ON_DEMAND, "true"),
        ("immediate", "Immediate", "false"),
    ):
        yield {
            "metadata": {"name": name, "annotations": {IS_DEFAULT: default}},
            "provisioner": DRIVER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": mode,
            "allowVolumeExpansion": True,
        }


def csi_driver() -> JSON:
    """Return the CSIDriver: its volumes need an attachment."""
    return {"metadata": {"name": DRIVER}, "spec": {"attachRequired": True}}


def csi_node(node: JSON) -> JSON:
    """Return the CSINode that the kubelet of a node registers."""
    metadata = node["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    plugins = ",".join(f"kubernetes.io/{each}" for each in _PLUGINS)
    driver = {"name": DRIVER, "nodeID": metadata["name"], "topologyKeys": None}
    return {
        "metadata": {
            "name": metadata["name"],
            "annotations": {_MIGRATED: plugins},
            "ownerReferences": [owner],
        },
        "spec": {"drivers": [driver]},
    }


def is_ours(volume: JSON) -> bool:
    """Tell whether a volume is one of the driver's."""
    return bool(volume["spec"].get("csi", {}).get("driver") == DRIVER)


def annotation(obj: JSON, name: str) -> str:
    """Return an annotation of an object, empty if it has none."""
    return str((obj["metadata"].get("annotations") or {}).get(name, ""))


def node_annotations(name: str) -> dict[str, str]:
    """Return the annotations that a kubelet writes on its node."""
    return {
        "csi.volume.kubernetes.io/nodeid": f'{{"{DRIVER}":"{name}"}}',
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }
