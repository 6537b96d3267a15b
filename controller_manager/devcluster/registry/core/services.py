"""Services, endpoints and their slices (pkg/registry/core/service, pkg/printers)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver import strategy
from controller_manager.devcluster.apiserver.objects import Objects, RESTStorage
from controller_manager.devcluster.registry.kinds import kind_of
from controller_manager.devcluster.scheme import names, statuses
from controller_manager.devcluster.scheme.names import validate_service_name
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation import values
from controller_manager.devcluster.validation.text import table

from .service_addresses import (
    EXTERNAL_NAME,
    SERVICE_ADDRESSES,
    allocate_for,
    is_externally_accessible,
    may_have_node_ports,
    needs_cluster_ip,
    needs_health_check_port,
    sync_addresses,
)
from .templates import equality_selector

_MOST_HINTS: Final = 8


def _slice_addresses(
    endpoint: JSON, path: str, around: JSON
) -> Iterator[statuses.Cause]:
    """Check the addresses by the type of the slice."""
    kind = around.get("addressType")
    check = _name if kind == "FQDN" else _address
    for number, address in enumerate(endpoint.get("addresses") or ()):
        if kind in ("FQDN", "IPv4", "IPv6"):
            yield from check(address, f"{path}addresses[{number}]", kind)


def _address(address: str, field: str, family: str) -> Iterator[statuses.Cause]:
    if values.is_in_family(address, "IPv6" if family == "IPv4" else "IPv4"):
        yield statuses.invalid(
            field, statuses.shown(address), f"must be an {family} address"
        )
    yield from values.validate_endpoint_address(address, field)


def _name(name: str, field: str, _: str) -> Iterator[statuses.Cause]:
    causes = names.validate_subdomain(name.removesuffix("."), field)
    yield from causes
    if not causes and "." not in name:
        detail = "should be a domain with at least two segments separated by dots"
        yield statuses.invalid(field, statuses.shown(name), detail)


def _hints(hints: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    for group in ("forZones", "forNodes"):
        found = [each.get("name", "") for each in hints.get(group, [])]
        where = f"{path}{group}"
        if len(found) > _MOST_HINTS:
            yield statuses.too_many(where, len(found), _MOST_HINTS)
            continue
        for number, name in enumerate(found):
            at = f"{where}[{number}].name"
            if name in found[:number]:
                yield statuses.duplicate(at, statuses.shown(name))
            yield from names.validate_labels({"name": name}, at)


def _slice_ports(obj: JSON) -> list[str]:
    return [
        str(each.get("port") or each.get("name") or "*") for each in obj["ports"] or ()
    ]


def _slice_endpoints(obj: JSON) -> list[str]:
    endpoints = obj["endpoints"] or ()
    return [address for each in endpoints for address in each["addresses"]]


SLICES: Final = kind_of(
    "discovery.k8s.io/v1/endpointslices",
    counted_metadata="labels",
    counts_generations=True,
    defaults={"ports[]": {"name": "", "protocol": "TCP"}},
    rules="""
        addressType: required enum FQDN IPv4 IPv6 filled
        endpoints: most 1000
        when endpoints not-above 1000:
          endpoints[]:
            addresses: required "must contain at least 1 address"
            addresses: most 100
            hook slice_addresses
            nodeName: subdomain pointer
            deprecatedTopology: labels
            hostname: label pointer
            hints:
              hook hints
        ports: most 20000
        when ports not-above 20000:
          ports[]:
            name: label
            name: unique pointer
            protocol: enum SCTP TCP UDP default null
            appProtocol: qualified pointer
        """,
    update_rules="addressType: immutable default empty",
    printer="""
        Name
        AddressType: .addressType
        Ports: few slice_ports or <unset>
        Endpoints: few slice_endpoints or <unset>
        Age
        """,
)


# Endpoints: the addresses of a service's pods

_ADDRESS: Final = table("""
    hostname: label
    nodeName: subdomain pointer
    ip: endpoint-address default empty
    """)


def _endpoints(obj: JSON) -> list[str]:
    return [text for each in obj.get("subsets", ()) for text in _addresses(each)]


def _addresses(subset: JSON) -> list[str]:
    addresses = [each["ip"] for each in subset.get("addresses", ())]
    if not subset.get("ports"):
        return addresses
    return [
        f"[{address}]:{port['port']}" if ":" in address else f"{address}:{port['port']}"
        for port in subset["ports"]
        for address in addresses
    ]


ENDPOINTS: Final = kind_of(
    "v1/endpoints",
    defaults={"subsets[]": {"ports[]": {"protocol": "TCP"}}},
    rules="""
        subsets[]:
          self: required if empty addresses notReadyAddresses
            "must specify `addresses` or `notReadyAddresses`"
          addresses[]:
            include ADDRESS
          notReadyAddresses[]:
            include ADDRESS
          ports[]:
            name: label
            name: required if outer ports above 1
            port: port default 0
            protocol: enum SCTP TCP UDP default null
            appProtocol: qualified pointer
        """,
    printer="Name; Endpoints: few endpoints or <none>; Age",
    deprecation=(
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    ),
)

# The columns of services


def _external(obj: JSON) -> str:
    spec = obj["spec"]
    if spec["type"] == EXTERNAL_NAME:
        return str(spec["externalName"])
    addresses = list(spec.get("externalIPs", ()))
    if spec["type"] != "LoadBalancer":
        return ",".join(addresses) or strategy.NONE
    balanced = obj.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    found = {each.get("ip") or each.get("hostname", "") for each in balanced}
    return ",".join([*sorted(filter(None, found)), *addresses]) or "<pending>"


def _port_text(port: JSON) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port['protocol']}"


def _ports(obj: JSON) -> str:
    return ",".join(map(_port_text, obj["spec"].get("ports", ()))) or strategy.NONE


# The fields that an update of a service keeps and drops


def _keep_allocated(old: JSON, new: JSON) -> None:
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


def _sync_cluster_ips(spec: JSON, old: JSON | None = None) -> None:
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


def _drop_unneeded(old: JSON, new: JSON) -> None:
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


# The rules for services (ValidateService and ValidateServiceUpdate)


def _external_name(name: str, field: str) -> list[statuses.Cause]:
    name = name.removesuffix(".")
    return names.validate_subdomain(name, field) if name else [statuses.required(field)]


def _reachable(spec: JSON, _: JSON) -> bool:
    return is_externally_accessible(spec)


def _same_port(port: JSON) -> JSON:
    return {"protocol": port.get("protocol", ""), "port": port.get("port", 0)}


def _kept(spec: JSON, path: str, old: JSON) -> Iterator[statuses.Cause]:
    """Check that the first address and family stay, and the second if both have one."""
    for name in ("clusterIPs", "ipFamilies"):
        before, after = old.get(name, []), spec.get(name, [])
        both = len(before) == len(after) == 2
        where, why = f"{path}{name}", "may not change once set"
        if before and before[:1] != after[:1]:
            yield statuses.invalid(f"{where}[0]", statuses.shown(after), why)
        if both and before[1] != after[1]:
            yield statuses.invalid(f"{where}[1]", statuses.shown(after), why)


_ADDRESSES: Final = SERVICE_ADDRESSES
SERVICE: Final = table("""
    spec:
      ports: required if type is-not ExternalName and clusterIP is-not None
      type: enum ClusterIP ExternalName LoadBalancer NodePort
      clusterIP: invalid at clusterIPs[0] if type is LoadBalancer and clusterIP is None
        "may not be set to 'None' for LoadBalancer services"
      clusterIP: invalid at clusterIPs[0] if type is NodePort and clusterIP is None
        "may not be set to 'None' for NodePort services"
      when type is ExternalName:
        clusterIP: forbidden at clusterIPs
          "may not be set for ExternalName services"
        externalName: external_name default empty
      ports[]:
        name: required if outer ports above 1
        name: label
        name: unique
        port: port default 0
        protocol: enum SCTP TCP UDP default null
        targetPort: port-or-name default 0
        appProtocol: qualified pointer
        port: invalid if port is 10250 and outer type is LoadBalancer
          "may not expose port 10250 externally since it is used by kubelet"
        nodePort: forbidden if outer type is ClusterIP
          "may not be used when `type` is 'ClusterIP'"
      ports[]:
        nodePort, protocol: unique at nodePort if has nodePort
        protocol, port: unique show same_port
      selector: labels
      sessionAffinity: enum ClientIP None default null
      when sessionAffinity is None:
        sessionAffinityConfig: forbidden
          "must not be set when session affinity is None"
      when sessionAffinity is ClientIP:
        sessionAffinityConfig always:
          clientIP always:
            timeoutSeconds: required pointer
            timeoutSeconds: range 1 86400
              "must be greater than 0 and less than 86400"
      include ADDRESSES
      externalIPs[]: endpoint-address
      when type is LoadBalancer:
        allocateLoadBalancerNodePorts: required pointer
      else:
        loadBalancerSourceRanges, allocateLoadBalancerNodePorts: forbidden
          "may only be used when `type` is 'LoadBalancer'"
        loadBalancerClass: forbidden
          "may only be used when `type` is 'LoadBalancer'"
      when reachable:
        externalTrafficPolicy: enum Cluster Local default null
      else:
        externalTrafficPolicy: refused
          "may only be set for externally-accessible services"
      internalTrafficPolicy: required pointer if type is-not ExternalName
      internalTrafficPolicy: enum Cluster Local
      trafficDistribution: enum PreferClose PreferSameNode PreferSameZone
    """)
SERVICE_UPDATE: Final = table("""
    spec change:
      when type is-not ExternalName and outer type is-not ExternalName:
        hook kept
    """)

# Service: one address for the pods that it selects; nothing here proxies to them

_AFFINITY_SECONDS: Final = 10800


def _default_service(obj: JSON) -> None:
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


def _allocate_new(obj: JSON, storage: Storage) -> None:
    _sync_cluster_ips(obj["spec"])
    allocate_for(obj, None, storage)


def _keep_and_drop(old: JSON, new: JSON) -> None:
    spec = new.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    _keep_allocated(old["spec"], spec)
    _sync_cluster_ips(spec, old["spec"])
    _drop_unneeded(old["spec"], spec)
    if spec["type"] != "LoadBalancer":
        new["status"] = {**new.get("status", {}), "loadBalancer": {}}


def _allocate_changed(old: JSON, new: JSON, storage: Storage) -> None:
    allocate_for(new, old, storage)


KIND: Final = kind_of(
    "v1/services",
    prepare_for_create=_allocate_new,
    prepare_for_update=_keep_and_drop,
    assign=_allocate_changed,
    apply_defaults=_default_service,
    check_name=validate_service_name,
    label_selector=equality_selector,
    returns_deleted=True,
    rules=SERVICE,
    update_rules=SERVICE_UPDATE,
    selectable_fields="spec.clusterIP spec.type",
    printer="""
        Name
        Type: .spec.type
        Cluster-IP: first .spec.clusterIPs or <none>
        External-IP: external
        Port(s): ports
        Age
        Selector wide: labels .spec.selector or <none>
        """,
)


def sync_dependents(objects: Objects, old: JSON | None, new: JSON | None) -> None:
    """Keep the IPAddresses; delete the Endpoints of a deleted service.

    Otherwise a new service of the same name gets the old endpoints.
    """
    sync_addresses(objects, old, new)
    if new is None and old is not None:
        metadata = old["metadata"]
        key = (metadata["namespace"], metadata["name"])
        if objects.storage.collection(ENDPOINTS.resource).get(key) is not None:
            objects.delete(ENDPOINTS, *key, strategy.Deletion())


REST_STORAGE: Final = RESTStorage(KIND.resource, after_write=sync_dependents)
