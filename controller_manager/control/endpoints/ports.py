"""The ports of a service on one of its pods (FindPort, getEndpointPorts)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.core.services import NO_CLUSTER_IP, Service, ServicePort
from controller_manager.api.core.v1 import Container, ContainerPort, InitContainer, Pod
from controller_manager.api.discovery.v1 import EndpointPort

_ALWAYS: Final = "Always"
_TCP: Final = "TCP"


def find_port(pod: Pod, service_port: ServicePort) -> int | None:
    """Return the number of the pod's port that a port of a service leads to.

    A name is looked up in the ports of the containers, then of the sidecars, with the
    same protocol. `None` if the pod has no such port.
    """
    target = service_port.target_port
    if isinstance(target, int):
        return target or service_port.port
    for container in _serving_containers(pod):
        for port in container.ports or ():
            if port.name == target and _protocol(port) == _protocol(service_port):
                return port.container_port
    return None


def _protocol(port: ServicePort | ContainerPort) -> str:
    return port.protocol or _TCP


def _serving_containers(pod: Pod) -> Iterator[Container | InitContainer]:
    yield from pod.spec.containers or ()
    for each in pod.spec.init_containers or ():
        if each.restart_policy == _ALWAYS:
            yield each


def endpoint_ports(service: Service, pod: Pod) -> tuple[EndpointPort, ...]:
    """Return the ports of a service on a pod, in the order of the service.

    Ports that the pod does not have are left out. A headless service may have no ports.
    """
    return tuple(
        EndpointPort(
            name=each.name,
            port=number,
            protocol=_protocol(each),
            app_protocol=each.app_protocol,
        )
        for each in service.spec.ports or ()
        if (number := find_port(pod, each)) is not None
    )


def has_no_ports(service: Service) -> bool:
    """Tell whether a service has addresses only: it is headless and has no ports."""
    return not service.spec.ports and service.spec.cluster_ip == NO_CLUSTER_IP


def depends_on_pod(service: Service) -> bool:
    """Tell whether the ports of a service may differ from pod to pod."""
    return any(isinstance(each.target_port, str) for each in service.spec.ports or ())
