"""The fields that a service needs, by its type (pkg/api/service)."""

from typing import Final

from controller_manager.api.json_objects import JSON

HEADLESS: Final = "None"
"""The cluster IP of a service without one."""

EXTERNAL_NAME: Final = "ExternalName"
_WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")


class AllocationError(Exception):
    """No free address or port is left; the message is upstream's."""


def needs_cluster_ip(spec: JSON) -> bool:
    """Tell whether a service has cluster IPs, or says that it has none."""
    return spec.get("type") != EXTERNAL_NAME


def needs_node_ports(spec: JSON) -> bool:
    """Tell whether each port of a service gets a node port."""
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts", True) is not False
    return spec.get("type") == "NodePort"


def may_have_node_ports(spec: JSON) -> bool:
    """Tell whether ports of a service may have node ports."""
    return spec.get("type") in _WITH_NODE_PORTS


def needs_health_check_port(spec: JSON) -> bool:
    """Tell whether a service gets a node port for health checks."""
    is_balanced = spec.get("type") == "LoadBalancer"
    return is_balanced and spec.get("externalTrafficPolicy") == "Local"


def is_externally_accessible(spec: JSON) -> bool:
    """Tell whether clients outside the cluster can reach a service."""
    kind = spec.get("type")
    return kind in _WITH_NODE_PORTS or (
        kind == "ClusterIP" and bool(spec.get("externalIPs"))
    )


def is_headless(spec: JSON) -> bool:
    """Tell whether a service has no cluster IP on purpose."""
    return spec.get("clusterIP") == HEADLESS
