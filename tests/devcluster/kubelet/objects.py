"""Objects of a cluster with nodes, read and written as a user does."""

from typing import Any

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.requests import send

CORE = "/api/v1"
DEFAULT = f"{CORE}/namespaces/default"
PODS = f"{DEFAULT}/pods"
CLAIMS = f"{DEFAULT}/persistentvolumeclaims"
VOLUMES = f"{CORE}/persistentvolumes"


async def create_pod(cluster: Cluster, name: str, **spec: Any) -> None:
    """Create a pod; `annotations` belong to its metadata, all else to its spec."""
    annotations = spec.pop("annotations", {})
    spec.setdefault("containers", [{"name": "c", "image": "i"}])
    metadata = {"name": name, "annotations": annotations}
    await send(cluster, "POST", PODS, {"metadata": metadata, "spec": spec})


async def status_of(cluster: Cluster, name: str) -> JSON:
    status: JSON = (await send(cluster, "GET", f"{PODS}/{name}"))["status"]
    return status


def condition(status: JSON, type_: str) -> tuple[str, str, str]:
    """Return status, reason and message of a pod's condition."""
    found = next(each for each in status["conditions"] if each["type"] == type_)
    return found["status"], found.get("reason", ""), found.get("message", "")


async def events(cluster: Cluster) -> list[str]:
    """Return all events, as ``OBJECT TYPE REASON: MESSAGE``, with their counts."""
    items = (await send(cluster, "GET", f"{DEFAULT}/events"))["items"]
    return [
        f"{each['involvedObject']['name']} {each['type']} {each['reason']}: "
        f"{each['message']}" + times(each.get("count", 1))
        for each in items
    ]


def times(count: int) -> str:
    """Return how kubectl shows how often an event was seen."""
    return f" (x{count})" if count > 1 else ""
