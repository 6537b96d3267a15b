"""Validation of ingresses (pkg/apis/networking/validation)."""

from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import (
    validate_host,
    validate_label,
    validate_subdomain,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.ip_addresses import parse_address
from controller_manager.devcluster.validation.ports import (
    validate_port_name,
    validate_port_number,
)

from .ingressclass import validate_typed_reference

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_PARTS: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS: Final = ("/..", "/.")
_NO_ADDRESS: Final = "must be a DNS name, not an IP address"
_NOTHING: Final = "either `defaultBackend` or `rules` must be specified"


def validate_ingress_spec(spec: JSON) -> Iterator[Cause]:
    """Yield the errors in the spec of an ingress."""
    rules: list[JSON] = spec.get("rules") or []
    if not rules and "defaultBackend" not in spec:
        yield invalid("spec", "null", _NOTHING)
    if "defaultBackend" in spec:
        yield from _validate_backend(spec["defaultBackend"], "spec.defaultBackend")
    for number, rule in enumerate(rules):
        yield from _validate_rule(rule, f"spec.rules[{number}]")
    for number, tls in enumerate(spec.get("tls") or ()):
        yield from _validate_tls(tls, f"spec.tls[{number}]")
    if (name := spec.get("ingressClassName")) is not None:
        yield from validate_subdomain(name, "spec.ingressClassName")


def validate_balanced(ingress: Sequence[JSON]) -> Iterator[Cause]:
    """Yield the errors in the addresses in the status of an ingress."""
    for number, each in enumerate(ingress):
        field = f"status.loadBalancer.ingress[{number}]"
        if (address := each.get("ip")) and parse_address(address) is None:
            why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid(f"{field}.ip", shown(address), why)
        if name := each.get("hostname"):
            yield from validate_subdomain(name, f"{field}.hostname")
            yield from _validate_no_address(name, f"{field}.hostname")


def _validate_no_address(name: str, field: str) -> list[Cause]:
    if parse_address(name) is None:
        return []
    return [invalid(field, shown(name), _NO_ADDRESS)]


def _validate_rule(rule: JSON, field: str) -> Iterator[Cause]:
    if host := rule.get("host"):
        yield from _validate_no_address(host, f"{field}.host")
        yield from validate_host(host, f"{field}.host")
    if (http := rule.get("http")) is None:
        return
    paths = http.get("paths") or []
    if not paths:
        yield required(f"{field}.http.paths")
    for number, path in enumerate(paths):
        yield from _validate_path(path, f"{field}.http.paths[{number}]")


def _validate_path(path: JSON, field: str) -> Iterator[Cause]:
    kind, text, where = path.get("pathType"), path.get("path", ""), f"{field}.path"
    if kind is None:
        yield required(f"{field}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield not_supported(f"{field}.pathType", shown(kind), _PATH_TYPES)
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield invalid(where, shown(text), "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        for part in _BAD_PARTS:
            if part in text:
                yield invalid(where, shown(text), f"must not contain '{part}'")
        for end in _BAD_ENDS:
            if text.endswith(end):
                yield invalid(where, shown(text), f"cannot end with '{end}'")
    yield from _validate_backend(path.get("backend", {}), f"{field}.backend")


def _validate_backend(backend: JSON, field: str) -> Iterator[Cause]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        why = "cannot set both resource and service backends"
        yield invalid(field, '""', why)
    elif resource is not None:
        yield from validate_typed_reference(resource, f"{field}.resource")
    elif service is not None:
        yield from _validate_service(service, field)
    else:
        yield invalid(field, '""', "resource or service backend is required")


def _validate_service(service: JSON, field: str) -> Iterator[Cause]:
    if name := service.get("name"):
        yield from validate_label(name, f"{field}.service.name")
    else:
        yield required(f"{field}.service.name")
    port = service.get("port") or {}
    name, number = port.get("name", ""), port.get("number", 0)
    if name and number:
        yield invalid(field, '""', "cannot set both port name & port number")
    elif name:
        yield from validate_port_name(name, f"{field}.service.port.name")
    elif number:
        yield from validate_port_number(number, f"{field}.service.port.number")
    else:
        yield required(field, "port name or number is required")


def _validate_tls(tls: JSON, field: str) -> Iterator[Cause]:
    for number, host in enumerate(tls.get("hosts") or ()):
        yield from validate_host(host, f"{field}.hosts[{number}]")
    if name := tls.get("secretName"):
        yield from validate_subdomain(name, f"{field}.secretName")
