"""Pods, claims and templates for the tests of the resource claim controller."""

from typing import Any, Final

import msgspec

from controller_manager.api.core.v1 import PODS
from controller_manager.api.dynamicresources.v1 import (
    DELETE_PROTECTION,
    RESOURCE_CLAIMS,
    ResourceClaim,
)
from controller_manager.api.json_objects import JSON
from tests.clusters import Write, make_config
from tests.controllers.hands import Hands

CONFIG: Final = make_config(
    controllers=("resourceclaim-controller", "ttl"),
    use_service_account_credentials=True,
)
REQUESTS: Final = [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]
ALLOCATION: Final = {
    "devices": {
        "results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]
    }
}


def from_template(name: str = "gpu", template: str = "t") -> JSON:
    return {"name": name, "resourceClaimTemplateName": template}


def direct(claim: str = "c", name: str = "r") -> JSON:
    return {"name": name, "resourceClaimName": claim}


def pod_reference(name: str, uid: str) -> JSON:
    return {"resource": "pods", "name": name, "uid": uid}


class Claims(Hands):
    """A cluster with claims to devices."""

    def add_template(self, name: str = "t", **metadata: Any) -> None:
        spec = {"metadata": metadata, "spec": {"devices": {"requests": REQUESTS}}}
        self.put("resource.k8s.io/v1/resourceclaimtemplates", name, spec=spec)

    def add_pod(self, name: str, *claims: JSON, **spec: Any) -> None:
        """Add a pod with claims; `status` is its status, not a part of its spec."""
        status = spec.pop("status", None)
        containers = [{"name": "c", "image": "app:v1"}]
        spec = {"containers": containers, "resourceClaims": [*claims], **spec}
        self.put(PODS, name, spec=spec, status=status)

    def add_claim(
        self, name: str = "c", *consumers: JSON, is_allocated: bool = True
    ) -> None:
        """Add a claim of a user; one that is allocated has the finalizer, too."""
        finalizers = [DELETE_PROTECTION, "example.com/hold"] if is_allocated else []
        allocation = {"allocation": ALLOCATION} if is_allocated else {}
        reserved = {"reservedFor": [*consumers]} if consumers else {}
        self.put(
            RESOURCE_CLAIMS,
            name,
            metadata={"finalizers": finalizers},
            spec={"devices": {"requests": REQUESTS}},
            status={**allocation, **reserved},
        )

    def claims(self) -> dict[str, ResourceClaim]:
        found = msgspec.json.encode(self.all(RESOURCE_CLAIMS))
        claims = msgspec.json.decode(found, type=list[ResourceClaim])
        return {each.metadata.name: each for each in sorted(claims, key=_name)}

    def reserved(self, name: str = "c") -> list[str]:
        return [each.name for each in self.claims()[name].status.reserved_for or ()]

    def status_names(self, name: str = "p") -> dict[str, str | None]:
        """Return the claims that the status of a pod names, in their order."""
        status = self.stored(PODS, name).get("status", {})
        found = status.get("resourceClaimStatuses") or ()
        return {each["name"]: each.get("resourceClaimName") for each in found}

    def uid_of(self, name: str) -> str:
        return str(self.stored(PODS, name)["metadata"]["uid"])

    def end(self, name: str, phase: str = "Succeeded") -> None:
        """Let a pod end; it stays."""
        self.edit(PODS, name, status={"phase": phase})

    def leave(self, name: str) -> None:
        self.remove(PODS, name)

    def delete_claim(self, name: str) -> None:
        self.remove(RESOURCE_CLAIMS, name)


def _name(claim: ResourceClaim) -> str:
    return claim.metadata.name


def requests(found: list[Write]) -> list[tuple[str, str, int]]:
    """Return the writes to claims and pods: verb, path below the namespace, answer."""
    return [
        (each.method, path, each.status)
        for each in found
        if (path := each.path.partition("/namespaces/default/")[2])
        and not path.startswith("events")
    ]
