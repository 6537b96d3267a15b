"""Validation of services (ValidateService in pkg/apis/core/validation)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.ip_addresses import validate_endpoint_address
from controller_manager.devcluster.scheme.names import (
    validate_labels,
    validate_subdomain,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)

from .address_validation import validate_addresses
from .fields import EXTERNAL_NAME, is_externally_accessible, is_headless
from .port_validation import validate_ports

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES: Final = ("ClientIP", "None")
_TRAFFIC: Final = ("Cluster", "Local")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameNode", "PreferSameZone")
_LONGEST_AFFINITY: Final = 86400


def validate_service(spec: JSON) -> list[Cause]:
    """Check the spec of a service that has its addresses and ports."""
    causes = []
    needs_ports = spec.get("type") != EXTERNAL_NAME and not is_headless(spec)
    if needs_ports and not spec.get("ports"):
        causes.append(required("spec.ports"))
    causes += _validate_type(spec)
    causes += validate_ports(spec)
    causes += validate_labels(spec.get("selector") or {}, "spec.selector")
    causes += _validate_affinity(spec)
    causes += validate_addresses(spec)
    for number, address in enumerate(spec.get("externalIPs", ())):
        causes += validate_endpoint_address(address, f"spec.externalIPs[{number}]")
    return [*causes, *_validate_balancing(spec), *_validate_traffic(spec)]


def _validate_type(spec: JSON) -> list[Cause]:
    kind = spec.get("type", "")
    if kind not in _TYPES:
        return [not_supported("spec.type", shown(kind), _TYPES)]
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        detail = f"may not be set to 'None' for {kind} services"
        value = shown(spec.get("clusterIP"))
        return [invalid("spec.clusterIPs[0]", value, detail)]
    if kind != EXTERNAL_NAME:
        return []
    causes = []
    if spec.get("clusterIP"):
        detail = "may not be set for ExternalName services"
        causes.append(forbidden_field("spec.clusterIPs", detail))
    name = spec.get("externalName", "").removesuffix(".")
    if name:
        return causes + validate_subdomain(name, "spec.externalName")
    return [*causes, required("spec.externalName")]


def _validate_affinity(spec: JSON) -> list[Cause]:
    affinity = spec.get("sessionAffinity")
    if affinity not in _AFFINITIES:
        field = "spec.sessionAffinity"
        return [not_supported(field, shown(affinity), _AFFINITIES)]
    config = spec.get("sessionAffinityConfig")
    field = "spec.sessionAffinityConfig"
    if affinity == "None":
        if config is None:
            return []
        detail = "must not be set when session affinity is None"
        return [forbidden_field(field, detail)]
    seconds = (config or {}).get("clientIP", {}).get("timeoutSeconds")
    field = f"{field}.clientIP.timeoutSeconds"
    if seconds is None:
        return [required(field)]
    if not 0 < seconds <= _LONGEST_AFFINITY:
        detail = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
        return [invalid(field, shown(seconds), detail)]
    return []


def _validate_balancing(spec: JSON) -> list[Cause]:
    if spec.get("type") == "LoadBalancer":
        if "allocateLoadBalancerNodePorts" in spec:
            return []
        return [required("spec.allocateLoadBalancerNodePorts")]
    detail = "may only be used when `type` is 'LoadBalancer'"
    names = (
        "loadBalancerSourceRanges",
        "allocateLoadBalancerNodePorts",
        "loadBalancerClass",
    )
    return [forbidden_field(f"spec.{name}", detail) for name in names if name in spec]


def _validate_traffic(spec: JSON) -> list[Cause]:
    causes = []
    external = spec.get("externalTrafficPolicy")
    field = "spec.externalTrafficPolicy"
    if not is_externally_accessible(spec):
        if external is not None:
            detail = "may only be set for externally-accessible services"
            causes.append(invalid(field, shown(external), detail))
    elif external not in _TRAFFIC:
        causes.append(not_supported(field, shown(external), _TRAFFIC))
    internal = spec.get("internalTrafficPolicy")
    field = "spec.internalTrafficPolicy"
    if spec.get("type") != EXTERNAL_NAME and internal is None:
        causes.append(required(field))
    elif internal is not None and internal not in _TRAFFIC:
        causes.append(not_supported(field, shown(internal), _TRAFFIC))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        field = "spec.trafficDistribution"
        causes.append(not_supported(field, shown(distribution), _DISTRIBUTIONS))
    return causes
