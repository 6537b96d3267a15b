"""Ranges and addresses for tests."""

from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.networking.v1 import (
    ADDRESS_FAMILY,
    ALLOCATOR,
    MANAGED_BY,
    ServiceCIDR,
    ServiceCIDRSpec,
)


def service_cidr(name: str, *ranges: str, deleted: str | None = None) -> ServiceCIDR:
    metadata = ObjectMeta(name=name, uid=f"uid-{name}", deletion_timestamp=deleted)
    return ServiceCIDR(metadata=metadata, spec=ServiceCIDRSpec(ranges))


def address_json(address: str, **labels: str) -> JSON:
    family = "IPv6" if ":" in address else "IPv4"
    managed = {ADDRESS_FAMILY: family, MANAGED_BY: ALLOCATOR}
    parent = {"resource": "services", "namespace": "default", "name": "web"}
    return {
        "metadata": {"name": address, "labels": labels or managed},
        "spec": {"parentRef": parent},
    }
