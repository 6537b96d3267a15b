"""What a pod adds to the slices of its service (podToEndpoint, getEndpointPorts)."""

from itertools import product
from typing import Final

from msgspec import Struct

from controller_manager.api.core.services import Service
from controller_manager.api.core.v1 import PODS, Node, ObjectReference, Pod
from controller_manager.api.discovery.v1 import (
    Endpoint,
    EndpointConditions,
    EndpointPort,
)
from controller_manager.api.meta import is_deleting, labels_of
from controller_manager.api.pods import is_ready
from controller_manager.control.endpoints.addresses import (
    addresses_of,
    has_hostname,
)
from controller_manager.control.endpoints.ports import depends_on_pod, endpoint_ports

ZONE: Final = "topology.kubernetes.io/zone"
"""The label of a node that names its zone."""

Ports = tuple[EndpointPort, ...]
"""The ports of a slice, in the order of their names."""


_BOTH: Final = (False, True)
_CONDITIONS: Final = {
    (ready, serving, terminating): EndpointConditions(
        ready=ready, serving=serving, terminating=terminating
    )
    for ready, serving, terminating in product(_BOTH, repeat=3)
}
"""All conditions that an endpoint may have; endpoints share them."""


class Backend(Struct, frozen=True):
    """The endpoint of a pod, for one type of address, and the ports that it serves."""

    ports: Ports
    endpoint: Endpoint


def in_order(ports: Ports | None) -> Ports:
    """Return ports in one order: slices with the same ports belong together."""
    return tuple(
        sorted(
            ports or (),
            key=lambda each: (
                each.name or "",
                each.port or 0,
                each.protocol or "",
                each.app_protocol or "",
            ),
        )
    )


class ServicePorts:
    """The ports of a service on its pods."""

    def __init__(self, service: Service) -> None:
        """Take the service."""
        self._service = service
        self._same: Ports | None = None
        """The ports of every pod, if they do not depend on the pod."""

    def of(self, pod: Pod) -> Ports:
        """Return the ports of the service on a pod, in order."""
        if self._same is not None:
            return self._same
        ports = in_order(endpoint_ports(self._service, pod))
        if not depends_on_pod(self._service):
            self._same = ports
        return ports


def endpoint_of(
    service: Service, pod: Pod, node: Node | None, address_type: str
) -> Endpoint | None:
    """Return the endpoint of a pod; `None` if it has no address of this type."""
    addresses = addresses_of(pod, address_type)
    if not addresses:
        return None
    metadata = pod.metadata
    serving, terminating = is_ready(pod), is_deleting(pod)
    published = service.spec.publish_not_ready_addresses
    ready = published or (serving and not terminating)
    return Endpoint(
        addresses=addresses,
        conditions=_CONDITIONS[ready, serving, terminating],
        hostname=pod.spec.hostname if has_hostname(pod, service) else None,
        target_ref=ObjectReference(
            kind=PODS.kind,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
        ),
        node_name=pod.spec.node_name or None,
        zone=zone_of(node) or None,
    )


def zone_of(node: Node | None) -> str:
    """Return the zone of a node, empty if it is not known."""
    return "" if node is None else labels_of(node).get(ZONE, "")
