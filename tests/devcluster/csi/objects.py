"""Claims, volumes and attachments, written as users and controllers do."""

import asyncio
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import CLAIMS, CORE, VOLUMES, send

STORAGE: Final = "/apis/storage.k8s.io/v1"
ATTACHMENTS: Final = f"{STORAGE}/volumeattachments"
CLASSES: Final = f"{STORAGE}/storageclasses"
MOUNTED: Final = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
CSI: Final[JSON] = {"csi": {"driver": "devcluster", "volumeHandle": "v"}}
UNIQUE_NAME: Final = "kubernetes.io/csi/devcluster^v"

_COMPLETED: Final = {"pv.kubernetes.io/bind-completed": "yes"}


async def create_claim(cluster: Cluster, name: str = "data", **spec: Any) -> JSON:
    """Create a claim of the default class, unless its spec names another."""
    full = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        **spec,
    }
    claim = await send(
        cluster, "POST", CLAIMS, {"metadata": {"name": name}, "spec": full}
    )
    await asyncio.sleep(0.1)
    return claim


async def create_volume(cluster: Cluster, name: str = "v", **spec: Any) -> JSON:
    """Create a volume of the class "standard", and make it Available."""
    full = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "standard",
        **spec,
    }
    if not full.keys() & {"csi", "hostPath"}:
        full["hostPath"] = {"path": f"/data/{name}"}
    await send(cluster, "POST", VOLUMES, {"metadata": {"name": name}, "spec": full})
    return await set_phase(cluster, name, "Available")


async def set_phase(cluster: Cluster, name: str, phase: str) -> JSON:
    """Set the phase of a volume, as the binder does."""
    status = {"status": {"phase": phase}}
    volume = await send(cluster, "PATCH", f"{VOLUMES}/{name}/status", status)
    await asyncio.sleep(0.1)
    return volume


async def bind(cluster: Cluster, volume: str = "v", name: str = "data") -> None:
    """Bind a claim to a volume, as the binder does."""
    claim = await claim_of(cluster, name)
    metadata = claim["metadata"]
    reference = {"namespace": "default", "name": name, "uid": metadata["uid"]}
    bound: JSON = {"spec": {"claimRef": reference}}
    written = await send(cluster, "PATCH", f"{VOLUMES}/{volume}", bound)
    await set_phase(cluster, volume, "Bound")
    bound = {"metadata": {"annotations": _COMPLETED}, "spec": {"volumeName": volume}}
    await send(cluster, "PATCH", f"{CLAIMS}/{name}", bound)
    status = {"phase": "Bound", "capacity": written["spec"]["capacity"]}
    await send(cluster, "PATCH", f"{CLAIMS}/{name}/status", {"status": status})
    await asyncio.sleep(0.1)


async def list_attached(cluster: Cluster, *names: str, node: str = "node-0") -> None:
    """List the volumes that are attached to a node, as a controller does."""
    attached = [{"name": name, "devicePath": ""} for name in names]
    status = {"status": {"volumesAttached": attached}}
    await send(cluster, "PATCH", f"{CORE}/nodes/{node}/status", status)
    await asyncio.sleep(0.1)


async def claim_of(cluster: Cluster, name: str = "data") -> JSON:
    return await send(cluster, "GET", f"{CLAIMS}/{name}")


async def volume_of(cluster: Cluster, name: str = "v") -> JSON:
    return await send(cluster, "GET", f"{VOLUMES}/{name}")


async def volumes(cluster: Cluster) -> list[str]:
    items = (await send(cluster, "GET", VOLUMES))["items"]
    return [each["metadata"]["name"] for each in items]


async def in_use(cluster: Cluster, node: str = "node-0") -> list[str]:
    """Return the volumes that a node reports as in use."""
    status = (await send(cluster, "GET", f"{CORE}/nodes/{node}"))["status"]
    found: list[str] = status.get("volumesInUse", [])
    return found
