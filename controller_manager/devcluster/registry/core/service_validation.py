"""What a service needs by its type, and the rules for services (pkg/api/service)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme import names, statuses
from controller_manager.devcluster.scheme.statuses import Cause, shown
from controller_manager.devcluster.validation import values
from controller_manager.devcluster.validation.text import table

# The fields that a service needs, by its type (pkg/api/service).

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


# The rules for services (ValidateService and ValidateServiceUpdate).

_MOST_ADDRESSES: Final = 2
_FAMILIES: Final = ("IPv4", "IPv6")


def _cluster_ips(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Compare the addresses with the first of them, and with their families."""
    addresses, primary = spec.get("clusterIPs", []), spec.get("clusterIP", "")
    where, families = f"{path}clusterIPs", spec.get("ipFamilies", [])
    if primary and not addresses:
        yield statuses.required(where)
    if addresses and primary != addresses[0]:
        detail = "must be empty when `clusterIP` is not specified"
        if primary:
            detail = "first value must match `clusterIP`"
        yield statuses.invalid(where, shown(addresses), detail)
    if len(addresses) > _MOST_ADDRESSES:
        yield statuses.too_many(where, len(addresses), _MOST_ADDRESSES)
    for number, address in enumerate(addresses[:_MOST_ADDRESSES]):
        at = f"{where}[{number}]"
        if address == HEADLESS:
            if len(addresses) > 1:
                detail = "'None' must be the first and only value"
                yield statuses.invalid(at, shown(address), detail)
        elif wrong := values.validate_address(address, at):
            yield from wrong
        elif number < len(families):
            yield from _family(address, families[number], at, number)


def _family(address: str, family: str, field: str, number: int) -> Iterator[Cause]:
    if not values.is_in_family(address, family):
        which = f"`ipFamilies[{number}]`"
        detail = f"expected an {family} value as indicated by {which}"
        yield statuses.invalid(field, shown(address), detail)


def _families(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    families = spec.get("ipFamilies", [])
    for number, family in enumerate(families):
        where = f"{path}ipFamilies[{number}]"
        if family not in _FAMILIES:
            yield statuses.not_supported(where, shown(family), _FAMILIES)
        elif family in families[:number]:
            yield statuses.duplicate(where, shown(family))


def _external_name(name: str, field: str) -> list[Cause]:
    name = name.removesuffix(".")
    return names.validate_subdomain(name, field) if name else [statuses.required(field)]


def _reachable(spec: JSON, _: JSON) -> bool:
    return is_externally_accessible(spec)


def _same_port(port: JSON) -> JSON:
    return {"protocol": port.get("protocol", ""), "port": port.get("port", 0)}


def _kept(spec: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check that the first address and family stay, and the second if both have one."""
    for name in ("clusterIPs", "ipFamilies"):
        before, after = old.get(name, []), spec.get(name, [])
        both = len(before) == len(after) == _MOST_ADDRESSES
        where, why = f"{path}{name}", "may not change once set"
        if before and before[:1] != after[:1]:
            yield statuses.invalid(f"{where}[0]", shown(after), why)
        if both and before[1] != after[1]:
            yield statuses.invalid(f"{where}[1]", shown(after), why)


SERVICE_ADDRESSES: Final = table("""
    when type is ExternalName:
      ipFamilies, ipFamilyPolicy: forbidden filled
        "may not be used when `type` is 'ExternalName'"
    else:
      hook families
      ipFamilyPolicy: enum PreferDualStack RequireDualStack SingleStack
      hook cluster_ips
    """)
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
      include SERVICE_ADDRESSES
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
