"""networking.k8s.io/v1: ranges of addresses for services, and addresses in use."""

from typing import Final

from controller_manager.api.meta import (
    APIStruct,
    CompleteObject,
    Condition,
    PartialObject,
    Resource,
)

MANAGED_BY: Final = "ipaddress.kubernetes.io/managed-by"
"""The label of an address that names its allocator."""

ADDRESS_FAMILY: Final = "ipaddress.kubernetes.io/ip-family"
"""The label of an address with its family, IPv4 or IPv6."""

ALLOCATOR: Final = "ipallocator.k8s.io"
"""The API server's allocator of addresses for services."""


class ServiceCIDRSpec(APIStruct, frozen=True):
    """The ranges: one, or one for each address family."""

    cidrs: tuple[str, ...] | None = None


class ServiceCIDRStatus(APIStruct, frozen=True):
    """The condition Ready: true if addresses are allocated from the ranges."""

    conditions: tuple[Condition, ...] | None = None


class ServiceCIDR(CompleteObject, frozen=True):
    """Ranges of addresses for services."""

    spec: ServiceCIDRSpec = ServiceCIDRSpec()
    status: ServiceCIDRStatus = ServiceCIDRStatus()


SERVICE_CIDRS: Resource[ServiceCIDR] = Resource(
    "networking.k8s.io",
    "v1",
    "servicecidrs",
    "ServiceCIDR",
    ServiceCIDR,
    namespaced=False,
)


IP_ADDRESS_METADATA: Resource[PartialObject] = Resource(
    "networking.k8s.io",
    "v1",
    "ipaddresses",
    "IPAddress",
    PartialObject,
    namespaced=False,
    metadata_only=True,
)
"""Addresses in use, of which only the metadata is cached; the name is the address."""
