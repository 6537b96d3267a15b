"""The usage of services (pkg/quota/v1/evaluator/core/services.go)."""

from typing import Final

from controller_manager.api.core.services import Service
from controller_manager.api.quantity import Quantity

from .amounts import Amounts
from .names import count_name

SERVICES: Final = "services"
NODE_PORTS: Final = "services.nodeports"
LOAD_BALANCERS: Final = "services.loadbalancers"

_COUNT: Final = count_name("services", "")
_ONE: Final = Quantity.of(1)
_TRACKED: Final = frozenset((_COUNT, SERVICES, NODE_PORTS, LOAD_BALANCERS))


def tracks(name: str) -> bool:
    """Tell whether services are charged for a resource."""
    return name in _TRACKED


def service_usage(service: Service) -> Amounts:
    """Return the usage of a service.

    The node ports of a new service are not allocated yet, so all its ports count. For a
    load balancer without allocated node ports, only ports with a node port count.
    """
    spec = service.spec
    ports = spec.ports or ()
    is_balancer = spec.type == "LoadBalancer"
    if is_balancer and spec.allocate_load_balancer_node_ports is False:
        node_ports = sum(1 for each in ports if each.node_port)
    else:
        node_ports = len(ports) if is_balancer or spec.type == "NodePort" else 0
    return {
        _COUNT: _ONE,
        SERVICES: _ONE,
        NODE_PORTS: Quantity.of(node_ports),
        LOAD_BALANCERS: Quantity.of(int(is_balancer)),
    }
