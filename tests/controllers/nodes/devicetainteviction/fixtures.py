"""Devices, claims and pods that use them, for tests on a cluster in memory."""

from dataclasses import replace
from typing import Any

from controller_manager.api.core.v1 import EVENTS, PODS
from controller_manager.api.dynamicresources.v1 import RESOURCE_SLICES
from controller_manager.api.dynamicresources.v1beta2 import DEVICE_TAINT_RULES
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import is_deleting
from controller_manager.client.rest.client import PatchType
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, make_config

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
TAINT: JSON = {"key": "broken", "effect": "NoExecute"}


def config(*, rules: bool = True, taints: bool = True) -> Config:
    made = make_config(
        controllers=("device-taint-eviction-controller", "cronjob"),
        use_service_account_credentials=True,
    )
    gates = {"DRADeviceTaintRules": rules, "DRADeviceTaints": taints}
    return replace(made, features=FeatureGates(gates))


def tolerating(seconds: int | None = None, **parts: Any) -> JSON:
    """Return a toleration, for ever or for some seconds."""
    toleration: JSON = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
    if seconds is not None:
        toleration["tolerationSeconds"] = seconds
    return toleration | parts


def device(name: str, *taints: JSON) -> JSON:
    return {"name": name, "taints": list(taints)} if taints else {"name": name}


def add_slice(
    cluster: Cluster, name: str, *devices: JSON, generation: int = 1, pool: str = "a"
) -> None:
    spec: JSON = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
        "nodeName": "a",
        "devices": list(devices),
    }
    cluster.add("ResourceSlice", name, API, spec=spec)


async def publish(cluster: Cluster, name: str, *devices: JSON) -> None:
    patch = {"spec": {"devices": list(devices)}}
    await cluster.client.patch(RESOURCE_SLICES, "", name, patch, PatchType.MERGE)


async def add_user(
    cluster: Cluster, name: str, *devices: str, tolerations: tuple[JSON, ...] = ()
) -> None:
    """Create a pod on the node a, and a claim with devices that is reserved for it."""
    spec: JSON = {
        "nodeName": "a",
        "terminationGracePeriodSeconds": 30,
        "containers": [{"name": "c", "image": "app:v1"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
    }
    cluster.add("Pod", name, spec=spec, status={"phase": "Running"})
    pod = await cluster.client.get(PODS, "default", name)
    add_claim(cluster, name, pod.metadata.uid, devices, tolerations)


def add_claim(
    cluster: Cluster,
    name: str,
    uid: str,
    devices: tuple[str, ...],
    tolerations: tuple[JSON, ...] = (),
    **metadata: Any,
) -> None:
    results = [
        {
            "request": "gpu",
            "driver": DRIVER,
            "pool": "a",
            "device": each,
            "tolerations": list(tolerations),
        }
        for each in devices
    ]
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    cluster.add(
        "ResourceClaim",
        name,
        API,
        metadata={"name": name, **metadata},
        spec={"devices": {"requests": [request]}},
        status={
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
        },
    )


def add_rule(
    cluster: Cluster, name: str, effect: str = "NoExecute", **selector: str
) -> None:
    taint = {**TAINT, "effect": effect}
    spec = {"deviceSelector": selector, "taint": taint}
    cluster.add("DeviceTaintRule", name, "resource.k8s.io/v1beta2", spec=spec)


async def condition(cluster: Cluster, rule: str) -> tuple[str, str, str] | None:
    """Return status, reason and message of the condition of a rule."""
    stored = await cluster.client.get(DEVICE_TAINT_RULES, "", rule)
    for each in stored.status.conditions or ():
        assert each.type == "EvictionInProgress"
        assert each.observed_generation == stored.metadata.generation
        return each.status, each.reason, each.message
    return None


async def evicted(cluster: Cluster) -> list[str]:
    page = await cluster.client.list_page(PODS)
    return sorted(each.metadata.name for each in page.items if is_deleting(each))


async def events(cluster: Cluster) -> list[str]:
    page = await cluster.client.list_page(EVENTS)
    return sorted(
        f"{each.involved_object.name} {each.type} {each.reason} "
        f"[{each.source.component}]: {each.message}"
        for each in page.items
    )


def event(pod: str, message: str) -> str:
    source = "device-taint-eviction-controller"
    return f"{pod} Normal DeviceTaintManagerEviction [{source}]: {message}"


MARKING = "Marking for deletion"
CANCELLING = "Cancelling deletion"
