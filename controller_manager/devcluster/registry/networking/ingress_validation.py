"""The rules for ingresses (pkg/apis/networking/validation)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.validation.ip_addresses import parse_address
from controller_manager.devcluster.validation.ports import (
    validate_port_name,
    validate_port_number,
)
from controller_manager.devcluster.validation.text import table

from .ingressclass import TYPED_REFERENCE

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_PARTS: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS: Final = ("/..", "/.")


def _no_address(name: str, field: str) -> Iterator[Cause]:
    if parse_address(name) is not None:
        yield invalid(field, shown(name), "must be a DNS name, not an IP address")


def _path(path: JSON, where: str, _: JSON) -> Iterator[Cause]:
    """Check the path by its type."""
    kind, text, where = path["pathType"], path.get("path", ""), f"{where}path"
    if kind not in _PATH_TYPES:
        return
    if not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        yield invalid(where, shown(text), "must be an absolute path")
    if kind == "ImplementationSpecific":
        return
    for part in _BAD_PARTS:
        if part in text:
            yield invalid(where, shown(text), f"must not contain '{part}'")
    for end in _BAD_ENDS:
        if text.endswith(end):
            yield invalid(where, shown(text), f"cannot end with '{end}'")


def _one_kind(backend: JSON, path: str, _: JSON) -> Iterator[Cause]:
    count = ("resource" in backend) + ("service" in backend)
    if count != 1:
        both = "cannot set both resource and service backends"
        why = both if count else "resource or service backend is required"
        yield invalid(path[:-1], '""', why)


def _service_port(service: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check the port of a service; upstream names the backend in two causes."""
    port, backend = service.get("port") or {}, path.removesuffix(".service.")
    name, number = port.get("name", ""), port.get("number", 0)
    if name and number:
        yield invalid(backend, '""', "cannot set both port name & port number")
    elif name:
        yield from validate_port_name(name, f"{path}port.name")
    elif number:
        yield from validate_port_number(number, f"{path}port.number")
    else:
        yield required(backend, "port name or number is required")


def _nothing(spec: JSON, _: JSON) -> bool:
    return not spec.get("rules") and "defaultBackend" not in spec


def _no_backend(_: JSON, path: str, __: JSON) -> Iterator[Cause]:
    why = "either `defaultBackend` or `rules` must be specified"
    yield invalid(path[:-1], "null", why)


_BACKEND: Final = table(
    """
    hook one_kind
    when lacks service:
      resource:
        include TYPED_REFERENCE
    when lacks resource:
      service:
        name: required
        name: label
        hook service_port
    """,
    _one_kind,
    _service_port,
    TYPED_REFERENCE=TYPED_REFERENCE,
)
INGRESS: Final = table(
    """
    spec:
      when nothing:
        hook no_backend
      defaultBackend:
        include BACKEND
      rules[]:
        host: no_address
        host: host
        http:
          paths: required
          paths[]:
            pathType: required pointer "pathType must be specified"
            when has pathType:
              pathType: enum Exact ImplementationSpecific Prefix
              hook path
              backend always:
                include BACKEND
      tls[]:
        hosts[]: host
        secretName: subdomain
      ingressClassName: subdomain pointer
    """,
    _nothing,
    _no_backend,
    _no_address,
    _path,
    BACKEND=_BACKEND,
)
INGRESS_STATUS: Final = table(
    """
    status:
      loadBalancer:
        ingress[]:
          ip: address
          hostname: subdomain
          hostname: no_address
    """,
    _no_address,
)
