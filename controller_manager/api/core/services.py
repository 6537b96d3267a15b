"""core/v1: services, as the controllers read them, and Endpoints, their addresses."""

from typing import Final

from msgspec import field

from controller_manager.api.meta import (
    APIStruct,
    CompleteObject,
    PartialMetadata,
    Projection,
    Resource,
)
from controller_manager.api.scalars import IntOrString

from .v1 import ObjectReference

TOPOLOGY_MODE: Final = "service.kubernetes.io/topology-mode"


TOPOLOGY_AWARE_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
"""The deprecated name of the annotation `TOPOLOGY_MODE`; it wins if both are set."""


HEADLESS: Final = "service.kubernetes.io/headless"
"""The label of endpoints whose service has no cluster IP."""


LAST_CHANGE_TRIGGER_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"
"""The annotation of endpoints: when the change happened that they were written for."""


NO_CLUSTER_IP: Final = "None"
"""The cluster IP of a headless service."""


EXTERNAL_NAME: Final = "ExternalName"
"""The type of a service that is an alias of a name outside the cluster."""


class ServiceAnnotations(APIStruct, frozen=True):
    """The only annotations of a service that controllers read."""

    topology_mode: str | None = field(default=None, name=TOPOLOGY_MODE)
    topology_aware_hints: str | None = field(default=None, name=TOPOLOGY_AWARE_HINTS)


class ServiceMeta(PartialMetadata, frozen=True):
    """The metadata of a service that controllers read."""

    annotations: ServiceAnnotations | None = None


class ServicePort(APIStruct, frozen=True):
    """A port of a service, and the port of its pods that it leads to."""

    name: str = ""
    protocol: str = ""
    app_protocol: str | None = None
    port: int = 0
    target_port: IntOrString = 0
    node_port: int = 0


class ServiceSpec(APIStruct, frozen=True):
    """The fields of a service's spec that controllers read."""

    ports: tuple[ServicePort, ...] | None = None
    selector: dict[str, str] | None = None
    cluster_ip: str = field(default="", name="clusterIP")
    type: str = ""
    ip_families: tuple[str, ...] | None = None
    publish_not_ready_addresses: bool = False
    allocate_load_balancer_node_ports: bool | None = None
    traffic_distribution: str | None = None


class Service(Projection, frozen=True):
    """A projection of a service; no controller writes services."""

    metadata: ServiceMeta = ServiceMeta()
    spec: ServiceSpec = ServiceSpec()


SERVICES: Resource[Service] = Resource("", "v1", "services", "Service", Service)


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
