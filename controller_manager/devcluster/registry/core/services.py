"""The columns of services (printService in pkg/printers)."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.objects import Objects, RESTStorage
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    Deletion,
    Strategy,
    age,
    fields_by_path,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import SELECTOR, name_of
from controller_manager.devcluster.scheme.names import validate_service_name
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.storage import Storage

from .endpoints import KIND as ENDPOINTS
from .service_addresses import allocate_for, sync_addresses
from .service_validation import (
    EXTERNAL_NAME,
    SERVICE,
    SERVICE_UPDATE,
    is_externally_accessible,
    may_have_node_ports,
    needs_cluster_ip,
    needs_health_check_port,
)

# The columns of services (printService in pkg/printers).

SERVICE_COLUMNS: Final = (
    NAME,
    Column("Type"),
    Column("Cluster-IP"),
    Column("External-IP"),
    Column("Port(s)"),
    AGE,
    SELECTOR,
)


def service_cells(obj: JSON, now: datetime) -> Cells:
    """Return the row of a service."""
    spec = obj["spec"]
    selector = spec.get("selector", {})
    return [
        name_of(obj),
        spec["type"],
        next(iter(spec.get("clusterIPs", ())), NONE),
        _external(obj),
        ",".join(map(_port_text, spec.get("ports", ()))) or NONE,
        age(obj, now),
        ",".join(f"{name}={selector[name]}" for name in sorted(selector)) or NONE,
    ]


def _external(obj: JSON) -> str:
    """Return the external addresses of a service."""
    spec = obj["spec"]
    if spec["type"] == EXTERNAL_NAME:
        return str(spec["externalName"])
    addresses = list(spec.get("externalIPs", ()))
    if spec["type"] != "LoadBalancer":
        return ",".join(addresses) or NONE
    balanced = obj.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    found = {each.get("ip") or each.get("hostname", "") for each in balanced}
    return ",".join([*sorted(filter(None, found)), *addresses]) or "<pending>"


def _port_text(port: JSON) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port['protocol']}"


# The fields that an update of a service keeps and drops
# (pkg/registry/core/service).


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


# Service: one address for the pods that it selects; nothing here proxies to them.

_AFFINITY_SECONDS: Final = 10800


class ServiceStrategy(Strategy):
    """Gives each service addresses and node ports of its own."""

    returns_deleted: ClassVar = True
    columns: ClassVar = SERVICE_COLUMNS
    rules: ClassVar = SERVICE
    update_rules: ClassVar = SERVICE_UPDATE
    selectable_fields: ClassVar = fields_by_path("spec.clusterIP", "spec.type")

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the type, the ports and the policies."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif not spec.get("sessionAffinityConfig", {}).get("clientIP"):
            seconds = {"timeoutSeconds": _AFFINITY_SECONDS}
            spec["sessionAffinityConfig"] = {"clientIP": seconds}
        for port in spec.get("ports", ()):
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if is_externally_accessible(spec):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] != EXTERNAL_NAME:
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        balancer = obj.setdefault("status", {}).setdefault("loadBalancer", {})
        for ingress in balancer.get("ingress", ()):
            if spec["type"] == "LoadBalancer" and "ip" in ingress:
                ingress.setdefault("ipMode", "VIP")

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Assign addresses and node ports; raises Refusal."""
        sync_cluster_ips(obj["spec"])
        allocate_for(obj, None, storage)

    def prepare_for_update(self, old: JSON, new: JSON) -> None:
        """Keep allocated values, and drop fields that the new type does not use."""
        spec = new.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        keep_allocated(old["spec"], spec)
        sync_cluster_ips(spec, old["spec"])
        drop_unneeded(old["spec"], spec)
        if spec["type"] != "LoadBalancer":
            new["status"] = {**new.get("status", {}), "loadBalancer": {}}

    def assign(self, old: JSON, new: JSON, storage: Storage) -> None:
        """Assign the addresses and node ports that an update needs; raises Refusal."""
        allocate_for(new, old, storage)

    def validate_name(self, name: str) -> list[Cause]:
        """Check the name of a new service."""
        return validate_service_name(name, "metadata.name")

    def label_selector(self, obj: JSON) -> JSON | None:
        """Return the LabelSelector of the service's pods."""
        selector = obj["spec"].get("selector")
        return {"matchLabels": selector} if selector else None

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return service_cells(obj, now)


KIND: Final = kind_of("v1", "services", ServiceStrategy())


def sync_dependents(objects: Objects, old: JSON | None, new: JSON | None) -> None:
    """Keep the IPAddresses; delete the Endpoints of a deleted service.

    Otherwise a new service of the same name gets the old endpoints.
    """
    sync_addresses(objects, old, new)
    if new is None and old is not None:
        metadata = old["metadata"]
        key = (metadata["namespace"], metadata["name"])
        if objects.storage.collection(ENDPOINTS.resource).get(key) is not None:
            objects.delete(ENDPOINTS, *key, Deletion())


REST_STORAGE: Final = RESTStorage(KIND.resource, after_write=sync_dependents)
