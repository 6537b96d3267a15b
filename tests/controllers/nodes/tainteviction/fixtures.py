"""Tainted nodes and tolerant pods, for tests on a cluster in memory."""

from controller_manager.api.core.v1 import EVENTS, NODES, PODS, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import is_deleting
from controller_manager.client.rest.client import PatchType
from controller_manager.options.config import Config
from tests.clusters import Cluster, make_config

DEDICATED: JSON = {"key": "dedicated", "value": "x", "effect": "NoExecute"}
MAINTENANCE: JSON = {"key": "maintenance", "effect": "NoExecute"}


def config() -> Config:
    return make_config(
        controllers=("taint-eviction-controller",), use_service_account_credentials=True
    )


def tolerating(seconds: int | None = None, key: str = "dedicated") -> JSON:
    """Return a toleration of a taint, for ever or for some seconds."""
    toleration = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return (
        toleration if seconds is None else toleration | {"tolerationSeconds": seconds}
    )


def add_pod(cluster: Cluster, name: str, *tolerations: JSON, node: str = "a") -> None:
    spec: JSON = {
        "nodeName": node,
        "terminationGracePeriodSeconds": 30,
        "containers": [{"name": "c", "image": "app:v1"}],
        "tolerations": list(tolerations),
    }
    cluster.add("Pod", name, spec=spec, status={"phase": "Running"})


async def taint(cluster: Cluster, *taints: JSON, node: str = "a") -> None:
    patch = {"spec": {"taints": list(taints) or None}}
    await cluster.client.patch(NODES, "", node, patch, PatchType.MERGE)


async def tolerate(cluster: Cluster, name: str, *tolerations: JSON) -> None:
    patch = {"spec": {"tolerations": list(tolerations)}}
    await cluster.client.patch(PODS, "default", name, patch, PatchType.MERGE)


async def pods(cluster: Cluster) -> dict[str, Pod]:
    page = await cluster.client.list_page(PODS)
    return {each.metadata.name: each for each in page.items}


async def evicted(cluster: Cluster) -> list[str]:
    found = await pods(cluster)
    return sorted(name for name, pod in found.items() if is_deleting(pod))


async def events(cluster: Cluster) -> list[str]:
    """Return the messages of all events, with their pods and counts."""
    page = await cluster.client.list_page(EVENTS)
    return sorted(
        f"{each.type} {each.reason} [{each.source.component}] "
        f"{each.involved_object.name}: {each.message} x{each.count}"
        for each in page.items
    )


def event(pod: str, message: str, count: int = 1) -> str:
    """Return an event about a pod in the namespace default, in the form of `events`."""
    return (
        f"Normal TaintManagerEviction [taint-eviction-controller] {pod}: "
        f"{message} default/{pod} x{count}"
    )


MARKING = "Marking for deletion Pod"
CANCELLING = "Cancelling deletion of Pod"
