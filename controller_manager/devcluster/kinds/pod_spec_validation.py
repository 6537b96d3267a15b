"""Validation of a pod's spec (ValidatePodSpec of pkg/apis/core/validation)."""

from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import (
    validate_label,
    validate_labels,
    validate_subdomain,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)

from .affinity_validation import validate_affinity, validate_spread
from .container_validation import validate_containers
from .ip_addresses import validate_address
from .pod_volume_validation import validate_volumes
from .taint_validation import validate_tolerations

_RESTARTS: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_NO_SERVER: Final = "must provide at least one DNS nameserver when `dnsPolicy` is None"
_MOST_SECONDS: Final = 2**31 - 1
_MOST_NAME_SERVERS: Final = 3
_SUBDOMAINS: Final = ("serviceAccountName", "nodeName")
_LABELS: Final = ("hostname", "subdomain")


def validate_pod_spec(
    spec: JSON, field: str, more_volumes: Sequence[str] = ()
) -> list[Cause]:
    """Check the spec of a pod or of a pod template.

    `more_volumes` names volumes that the pods of a template get besides its own.
    """
    volumes = spec.get("volumes") or ()
    names = frozenset((*(each.get("name", "") for each in volumes), *more_volumes))
    causes = [
        *validate_volumes(volumes, f"{field}.volumes"),
        *validate_containers(spec, names, field),
        *_validate_policies(spec, field),
    ]
    causes += validate_labels(spec.get("nodeSelector") or {}, f"{field}.nodeSelector")
    if affinity := spec.get("affinity"):
        causes += validate_affinity(affinity, f"{field}.affinity")
    spread = spec.get("topologySpreadConstraints") or ()
    causes += validate_spread(spread, f"{field}.topologySpreadConstraints")
    causes += _validate_names(spec, field)
    causes += _validate_seconds(spec, field)
    tolerations = spec.get("tolerations") or ()
    causes += validate_tolerations(tolerations, f"{field}.tolerations")
    return [*causes, *_validate_aliases(spec, field)]


def _validate_policies(spec: JSON, field: str) -> Iterator[Cause]:
    if (policy := spec.get("restartPolicy")) not in _RESTARTS:
        yield not_supported(f"{field}.restartPolicy", shown(policy), _RESTARTS)
    if (policy := spec.get("dnsPolicy")) not in _DNS_POLICIES:
        yield not_supported(f"{field}.dnsPolicy", shown(policy), _DNS_POLICIES)
    servers = (spec.get("dnsConfig") or {}).get("nameservers") or []
    where = f"{field}.dnsConfig.nameservers"
    if policy == "None" and not servers:
        yield required(
            where if "dnsConfig" in spec else f"{field}.dnsConfig", _NO_SERVER
        )
    if len(servers) > _MOST_NAME_SERVERS:
        why = f"must not have more than {_MOST_NAME_SERVERS} nameservers"
        yield invalid(where, shown(servers), why)
    for number, server in enumerate(servers):
        yield from validate_address(server, f"{where}[{number}]")


def _validate_names(spec: JSON, field: str) -> Iterator[Cause]:
    for name in _SUBDOMAINS:
        if value := spec.get(name):
            yield from validate_subdomain(value, f"{field}.{name}")
    for name in _LABELS:
        if value := spec.get(name):
            yield from validate_label(value, f"{field}.{name}")
    for name in ("priorityClassName", "runtimeClassName"):
        if value := spec.get(name):
            yield from validate_subdomain(value, f"{field}.{name}")


def _validate_seconds(spec: JSON, field: str) -> Iterator[Cause]:
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MOST_SECONDS:
        why = f"must be between 1 and {_MOST_SECONDS}, inclusive"
        yield invalid(f"{field}.activeDeadlineSeconds", shown(deadline), why)


def _validate_aliases(spec: JSON, field: str) -> Iterator[Cause]:
    for number, alias in enumerate(spec.get("hostAliases") or ()):
        where = f"{field}.hostAliases[{number}]"
        yield from validate_address(alias.get("ip", ""), f"{where}.ip")
        for index, name in enumerate(alias.get("hostnames") or ()):
            yield from validate_subdomain(name, f"{where}.hostnames[{index}]")
