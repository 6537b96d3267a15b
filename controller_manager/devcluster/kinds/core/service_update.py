"""What an update of a service keeps and drops (pkg/registry/core/service).

A user who writes a service back without the values that the server has allocated
keeps them. A user who changes the type need not clear fields of the old type.
"""

from typing import Any

from controller_manager.devcluster.kinds.core.service_fields import (
    EXTERNAL_NAME,
    is_externally_accessible,
    may_have_node_ports,
    needs_cluster_ip,
    needs_health_check_port,
    port_key,
)

JSON = dict[str, Any]


def keep_allocated(old: JSON, new: JSON) -> None:
    """Copy allocated values that the new spec does not mention from the old one."""
    if needs_cluster_ip(old) and needs_cluster_ip(new):
        _keep_addresses(old, new)
    if may_have_node_ports(old) and may_have_node_ports(new):
        before = {port_key(each): each.get("nodePort") for each in old.get("ports", ())}
        taken = {each.get("nodePort") for each in new.get("ports", ())}
        for port in new.get("ports", ()):
            known = before.get(port_key(port))
            if not port.get("nodePort") and known and known not in taken:
                port["nodePort"] = known
    if needs_health_check_port(old) and needs_health_check_port(new):
        known = old.get("healthCheckNodePort")
        if known and not new.get("healthCheckNodePort"):
            new["healthCheckNodePort"] = known


def _keep_addresses(old: JSON, new: JSON) -> None:
    if "clusterIP" not in new and "clusterIPs" not in new:
        for name in ("clusterIP", "clusterIPs"):
            if name in old:
                new[name] = old[name]
    elif new.get("clusterIP") == old.get("clusterIP") and "clusterIPs" in old:
        new.setdefault("clusterIPs", old["clusterIPs"])


def sync_cluster_ips(spec: JSON, old: JSON | None = None) -> None:
    """Make ``clusterIP`` the first of ``clusterIPs`` (normalizeClusterIPs).

    A client that knows only the one field may change or remove it.
    """
    primary, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs", [])
    before = old or {}
    is_same_list = addresses == before.get("clusterIPs", [])
    is_same_first = primary == before.get("clusterIP", "")
    if primary and not addresses:
        spec["clusterIPs"] = [primary]
    elif old is not None and is_same_list and not is_same_first:
        spec["clusterIPs"] = [primary] if primary else []
    if not spec.get("clusterIPs"):
        spec.pop("clusterIPs", None)


def drop_unneeded(old: JSON, new: JSON) -> None:
    """Drop fields of the old type that the new spec repeats without a need."""
    if needs_cluster_ip(old) and not needs_cluster_ip(new):
        if new.get("clusterIPs") == old.get("clusterIPs"):
            new.pop("clusterIP", None)
        for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            _drop_same(old, new, name)
    if may_have_node_ports(old) and not may_have_node_ports(new):
        _drop_node_ports(old, new)
    if needs_health_check_port(old) and not needs_health_check_port(new):
        _drop_same(old, new, "healthCheckNodePort")
    if old.get("type") == "LoadBalancer" != new.get("type"):
        for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            _drop_same(old, new, name)
    if is_externally_accessible(old) and not is_externally_accessible(new):
        _drop_same(old, new, "externalTrafficPolicy")
    if needs_cluster_ip(old) and not needs_cluster_ip(new):
        _drop_same(old, new, "internalTrafficPolicy")
    if old.get("type") == EXTERNAL_NAME != new.get("type"):
        _drop_same(old, new, "externalName")


def _drop_same(old: JSON, new: JSON, name: str) -> None:
    if name in new and new[name] == old.get(name):
        del new[name]


def _drop_node_ports(old: JSON, new: JSON) -> None:
    """Drop the node ports if the service had all of them before."""
    before = {each.get("nodePort") for each in old.get("ports", ())}
    ports = [each for each in new.get("ports", ()) if each.get("nodePort")]
    if all(each["nodePort"] in before for each in ports):
        for port in ports:
            del port["nodePort"]
