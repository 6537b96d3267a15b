"""core/v1: services, as the controllers read them."""

from typing import Final

from msgspec import field

from controller_manager.api.intstr import IntOrString
from controller_manager.api.meta import APIStruct, PartialMetadata, Projection
from controller_manager.api.resource import Resource

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
