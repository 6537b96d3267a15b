"""The fields that an update of a service keeps and drops (pkg/registry/core/service).

A user who writes a service back without the values that the server has allocated
keeps them. A user who changes the type need not clear fields of the old type.
"""

from controller_manager.api.json_objects import JSON

from .fields import (
    is_externally_accessible,
    may_have_node_ports,
    needs_cluster_ip,
    needs_health_check_port,
)


def keep_allocated(old: JSON, new: JSON) -> None:
    """Copy allocated values that the new spec does not mention from the old one.

    Upstream: patchAllocatedValues.
    """
    if needs_cluster_ip(old) and needs_cluster_ip(new):
        for name in ("clusterIP", "clusterIPs"):
            if name not in new and name in old:
                new[name] = old[name]
    if may_have_node_ports(old) and may_have_node_ports(new):
        _keep_node_ports(old.get("ports", []), new.get("ports", []))
    if needs_health_check_port(old) and needs_health_check_port(new):
        known = old.get("healthCheckNodePort")
        if known and not new.get("healthCheckNodePort"):
            new["healthCheckNodePort"] = known


def _keep_node_ports(old: list[JSON], new: list[JSON]) -> None:
    """Copy the node ports of ports with the same names, unless others have them."""
    before = {each.get("name", ""): each.get("nodePort") for each in old}
    used = {each.get("nodePort") for each in new} & set(before.values())
    for port in new:
        known = before.get(port.get("name", ""))
        if not port.get("nodePort") and known and known not in used:
            port["nodePort"] = known


def sync_cluster_ips(spec: JSON, old: JSON | None = None) -> None:
    """Make ``clusterIP`` the first of ``clusterIPs`` (normalizeClusterIPs).

    A client that knows only ``clusterIP`` may change or remove it.
    """
    primary, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs", [])
    if old is None:
        if primary and not addresses:
            spec["clusterIPs"] = [primary]
        return
    known, before = old.get("clusterIP", ""), old.get("clusterIPs", [])
    if before and not addresses and primary == known:
        spec["clusterIPs"] = before
    elif primary != known and addresses == before:
        spec["clusterIPs"] = [primary]
        if not primary:
            del spec["clusterIPs"]


def drop_unneeded(old: JSON, new: JSON) -> None:
    """Drop fields of the old type that the new type does not need.

    Upstream: dropTypeDependentFields.
    """
    if needs_cluster_ip(old) and not needs_cluster_ip(new):
        names = ("clusterIP", "clusterIPs")
        if all(old.get(name) == new.get(name) for name in names):
            for name in names:
                new.pop(name, None)
        for name in ("ipFamilies", "ipFamilyPolicy"):
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
