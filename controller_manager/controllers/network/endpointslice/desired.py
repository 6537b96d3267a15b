"""Makes the endpoints of the pods of a service (podToEndpoint, getEndpointPorts)."""

from collections.abc import Iterable
from itertools import product
from typing import Final

from msgspec import Struct, field

from controller_manager.api.core.services import Service
from controller_manager.api.core.v1 import PODS, Node, ObjectReference, Pod
from controller_manager.api.discovery.v1 import (
    Endpoint,
    EndpointConditions,
    EndpointPort,
)
from controller_manager.api.meta import is_deleting, key_of, labels_of
from controller_manager.api.pods import is_ready
from controller_manager.control.endpoints.addresses import (
    addresses_of,
    belongs_in_endpoints,
    has_hostname,
)
from controller_manager.control.endpoints.ports import depends_on_pod, endpoint_ports
from controller_manager.control.endpoints.selectors import is_selected
from controller_manager.informers.lister import Lister

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
    """Return ports in a fixed order, so that equal sets of ports compare equal."""
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


class SkippedPods(Struct):
    """Pods without endpoints as their nodes are not cached, each with a message."""

    messages: dict[str, str] = field(default_factory=dict)


class DesiredEndpoints:
    """Makes the backends of the pods of one service from the caches."""

    def __init__(
        self,
        service: Service,
        pods: Lister[Pod],
        nodes: Lister[Node],
        skipped: SkippedPods,
    ) -> None:
        """Take the service and the caches; `skipped` collects pods without a node."""
        self._service = service
        self._pods = pods
        self._nodes = nodes
        self._ports = ServicePorts(service)
        self._skipped = skipped

    def pods(self, names: Iterable[str]) -> list[Pod]:
        """Return the pods with these names that the service selects."""
        namespace = self._service.metadata.namespace
        found = (self._pods.get(namespace, name) for name in names)
        return [
            each
            for each in found
            if each is not None and is_selected(each, self._service)
        ]

    def backends(self, pods: Iterable[Pod], address_type: str) -> list[Backend]:
        """Return the backends of pods, for one address type."""
        found = (self._backend(pod, address_type) for pod in pods)
        return [each for each in found if each is not None]

    def _backend(self, pod: Pod, address_type: str) -> Backend | None:
        if not belongs_in_endpoints(pod, include_terminating=True):
            return None
        node = self._nodes.get("", pod.spec.node_name)
        if node is None and not self._service.spec.publish_not_ready_addresses:
            self._skipped.messages[pod.metadata.name] = (
                f"skipping Pod {pod.metadata.name} for Service "
                f"{key_of(self._service)}: Node {pod.spec.node_name} Not Found"
            )
            return None
        endpoint = endpoint_of(self._service, pod, node, address_type)
        return None if endpoint is None else Backend(self._ports.of(pod), endpoint)
