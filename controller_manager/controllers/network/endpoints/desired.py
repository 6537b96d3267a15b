"""Makes the endpoint addresses of the pods of a service."""

from collections.abc import Iterable, Iterator

from controller_manager.api.core.endpoints import EndpointAddress, EndpointPort
from controller_manager.api.core.services import Service
from controller_manager.api.core.v1 import ObjectReference, Pod
from controller_manager.api.discovery.v1 import IPV6
from controller_manager.control.endpoints.addresses import (
    address_types_of,
    addresses_of,
    belongs_in_endpoints,
    has_hostname,
    takes_traffic,
)
from controller_manager.control.endpoints.ports import find_port, has_no_ports
from controller_manager.control.endpoints.subsets import Offers


def gather(offers: Offers, service: Service, pods: Iterable[Pod]) -> None:
    """Add the addresses of the pods of a service; a pod without a port adds none."""
    include_terminating = service.spec.publish_not_ready_addresses
    without_ports = has_no_ports(service)
    for pod in pods:
        if not belongs_in_endpoints(pod, include_terminating=include_terminating):
            continue
        ports = tuple(_ports(service, pod))
        if not ports and not without_ports:
            continue
        if (address := _address(service, pod)) is not None:
            offers.add(address, ports, ready=takes_traffic(pod, service))


def _ports(service: Service, pod: Pod) -> Iterator[EndpointPort]:
    for each in service.spec.ports or ():
        if (number := find_port(pod, each)) is not None:
            yield EndpointPort(
                name=each.name,
                port=number,
                protocol=each.protocol,
                app_protocol=each.app_protocol,
            )


def _address(service: Service, pod: Pod) -> EndpointAddress | None:
    """Return the pod's address of the service's first family, `None` if it has none."""
    addresses = addresses_of(pod, _address_type(service, pod))
    if not addresses:
        return None
    metadata = pod.metadata
    return EndpointAddress(
        ip=addresses[0],
        hostname=pod.spec.hostname if has_hostname(pod, service) else "",
        node_name=pod.spec.node_name or None,
        target_ref=ObjectReference(
            kind="Pod",
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
        ),
    )


def _address_type(service: Service, pod: Pod) -> str:
    """Return the type of the addresses in the Endpoints of a service.

    It is the service's first. A headless service that does not say its families has the
    type of the pod's first address (podToEndpointAddressForService).
    """
    types = address_types_of(service)
    if not service.spec.ip_families and len(types) > 1 and ":" in pod.status.pod_ip:
        return IPV6
    return types[0]
