"""Pods, claims and templates for the tests of the resource claim controller."""

from typing import Any, Final

from controller_manager.api.core.v1 import EVENTS, PODS
from controller_manager.api.dynamicresources.v1 import (
    DELETE_PROTECTION,
    RESOURCE_CLAIMS,
    ResourceClaim,
)
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.client.rest.errors import NotFound
from tests.clusters import Cluster, Write, make_config

CONFIG: Final = make_config(
    controllers=("resourceclaim-controller", "ttl"),
    use_service_account_credentials=True,
)
API: Final = "resource.k8s.io/v1"
REQUESTS: Final = [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]
ALLOCATION: Final = {
    "devices": {
        "results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]
    }
}


def add_template(cluster: Cluster, name: str = "t", **metadata: Any) -> None:
    spec = {"metadata": metadata, "spec": {"devices": {"requests": REQUESTS}}}
    cluster.add("ResourceClaimTemplate", name, API, spec=spec)


def from_template(name: str = "gpu", template: str = "t") -> JSON:
    return {"name": name, "resourceClaimTemplateName": template}


def direct(claim: str = "c", name: str = "r") -> JSON:
    return {"name": name, "resourceClaimName": claim}


def add_pod(cluster: Cluster, name: str, *claims: JSON, **spec: Any) -> None:
    """Store a pod with these claims; `status` is its status, not a part of its spec."""
    parts = {"status": spec.pop("status")} if "status" in spec else {}
    containers = [{"name": "c", "image": "app:v1"}]
    spec = {"containers": containers, "resourceClaims": [*claims], **spec}
    cluster.add("Pod", name, spec=spec, **parts)


def add_claim(
    cluster: Cluster, name: str = "c", *consumers: JSON, is_allocated: bool = True
) -> None:
    """Store a claim of a user; one that is allocated has the finalizer, too."""
    finalizers = [DELETE_PROTECTION, "example.com/hold"] if is_allocated else []
    allocation = {"allocation": ALLOCATION} if is_allocated else {}
    reserved = {"reservedFor": [*consumers]} if consumers else {}
    cluster.add(
        "ResourceClaim",
        name,
        API,
        metadata={"name": name, "finalizers": finalizers},
        spec={"devices": {"requests": REQUESTS}},
        status={**allocation, **reserved},
    )


def pod_reference(name: str, uid: str) -> JSON:
    return {"resource": "pods", "name": name, "uid": uid}


async def claims(cluster: Cluster) -> dict[str, ResourceClaim]:
    page = await cluster.client.list_page(RESOURCE_CLAIMS)
    return {each.metadata.name: each for each in page.items}


async def reserved(cluster: Cluster, name: str = "c") -> list[str]:
    claim = (await claims(cluster))[name]
    return [each.name for each in claim.status.reserved_for or ()]


async def status_names(cluster: Cluster, name: str = "p") -> dict[str, str | None]:
    """Return the claims that the status of a pod names, in their order."""
    pod = await cluster.client.get(PODS, "default", name)
    statuses = pod.status.resource_claim_statuses or ()
    return {each.name: each.resource_claim_name for each in statuses}


async def uid_of(cluster: Cluster, name: str) -> str:
    return (await cluster.client.get(PODS, "default", name)).metadata.uid


async def end(cluster: Cluster, name: str, phase: str = "Succeeded") -> None:
    """Let a pod end; it stays."""
    patch = {"status": {"phase": phase}}
    await cluster.client.patch(PODS, "default", name, patch, subresource="status")


async def remove(cluster: Cluster, name: str) -> None:
    options = DeleteOptions(grace_period_seconds=0)
    await cluster.client.delete(PODS, "default", name, options)


async def delete_claim(cluster: Cluster, name: str) -> None:
    try:
        await cluster.client.delete(RESOURCE_CLAIMS, "default", name)
    except NotFound as error:
        raise AssertionError(name) from error


async def events(cluster: Cluster) -> list[tuple[str, str, str, str, str]]:
    """Return the object, type, reason, component and message of each event."""
    page = await cluster.client.list_page(EVENTS)
    return [
        (
            f"{each.involved_object.kind}/{each.involved_object.name}",
            each.type,
            each.reason,
            each.source.component,
            each.message,
        )
        for each in page.items
    ]


def requests(found: list[Write]) -> list[tuple[str, str, int]]:
    """Return the writes to claims and pods: verb, path below the namespace, answer."""
    return [
        (each.method, path, each.status)
        for each in found
        if (path := each.path.partition("/namespaces/default/")[2])
        and not path.startswith("events")
    ]
