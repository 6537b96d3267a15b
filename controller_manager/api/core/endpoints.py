"""core/v1: Endpoints, the addresses of all pods of a service in one object."""

from typing import Final

from controller_manager.api.meta import APIStruct, CompleteObject
from controller_manager.api.resource import Resource

from .v1 import ObjectReference

MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
"""The label of Endpoints that names the controller that writes them."""


OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
"""The annotation of Endpoints that lack addresses of their service."""


LEADER_ELECTION: Final = "control-plane.alpha.kubernetes.io/leader"
"""The annotation of Endpoints that are the lock of a leader election."""


class EndpointAddress(APIStruct, frozen=True):
    """One address, and the pod that it belongs to."""

    ip: str = ""
    hostname: str = ""
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointPort(APIStruct, frozen=True):
    """One port of all addresses of a subset."""

    name: str = ""
    port: int = 0
    protocol: str = ""
    app_protocol: str | None = None


class EndpointSubset(APIStruct, frozen=True):
    """Addresses that have the same ports."""

    addresses: tuple[EndpointAddress, ...] | None = None
    not_ready_addresses: tuple[EndpointAddress, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None


class Endpoints(CompleteObject, frozen=True):
    """The addresses of a service; the name is the service's."""

    subsets: tuple[EndpointSubset, ...] | None = None


ENDPOINTS: Resource[Endpoints] = Resource("", "v1", "endpoints", "Endpoints", Endpoints)
