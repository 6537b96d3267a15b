"""discovery.k8s.io/v1: endpoint slices."""

from typing import Final

from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.meta import APIStruct, CompleteObject, Resource

SERVICE_NAME: Final = "kubernetes.io/service-name"
"""The label of a slice that names its service."""

MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
"""The label of a slice that names the controller that writes it."""

IPV4: Final = "IPv4"
IPV6: Final = "IPv6"


class EndpointConditions(APIStruct, frozen=True):
    """The conditions of an endpoint; an absent condition is unknown."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class ForZone(APIStruct, frozen=True):
    """A zone whose clients should use an endpoint."""

    name: str = ""


class ForNode(APIStruct, frozen=True):
    """A node whose clients should use an endpoint."""

    name: str = ""


class EndpointHints(APIStruct, frozen=True):
    """The zones and nodes whose clients should use an endpoint."""

    for_zones: tuple[ForZone, ...] | None = None
    for_nodes: tuple[ForNode, ...] | None = None


class Endpoint(APIStruct, frozen=True):
    """One backend of a service, with its addresses of one type."""

    addresses: tuple[str, ...] | None = None
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    target_ref: ObjectReference | None = None
    deprecated_topology: dict[str, str] | None = None
    node_name: str | None = None
    zone: str | None = None
    hints: EndpointHints | None = None


class EndpointPort(APIStruct, frozen=True):
    """A port of all endpoints of a slice."""

    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    app_protocol: str | None = None


class EndpointSlice(CompleteObject, frozen=True):
    """Some of the endpoints of a service; they have the same ports."""

    address_type: str = ""
    endpoints: tuple[Endpoint, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None


ENDPOINT_SLICES: Resource[EndpointSlice] = Resource(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", EndpointSlice
)
