"""Validation of probes and lifecycle handlers (pkg/apis/core/validation)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)

from .field_values import validate_not_negative
from .ports import validate_port

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SCHEMES: Final = ("HTTP", "HTTPS")
_NUMBERS: Final = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def validate_lifecycle(container: JSON, field: str) -> Iterator[Cause]:
    """Yield the errors in the hooks and the probes of a container."""
    for name in ("postStart", "preStop"):
        handler = container.get("lifecycle", {}).get(name)
        if handler is not None:
            yield from _validate_handler(handler, f"{field}.lifecycle.{name}")
    for name in _PROBES:
        if name in container:
            yield from _validate_probe(container[name], name, f"{field}.{name}")


def _validate_probe(probe: JSON, name: str, field: str) -> Iterator[Cause]:
    yield from _validate_handler(probe, field)
    yield from validate_not_negative(probe, *_NUMBERS, field=field)
    seconds, where = (
        probe.get("terminationGracePeriodSeconds"),
        f"{field}.terminationGracePeriodSeconds",
    )
    if seconds is not None and name == "readinessProbe":
        yield invalid(where, shown(seconds), "must not be set for readinessProbes")
    elif seconds is not None and seconds <= 0:
        yield invalid(where, shown(seconds), "must be greater than 0")
    threshold = probe.get("successThreshold", 1)
    if name != "readinessProbe" and threshold != 1:
        yield invalid(f"{field}.successThreshold", shown(threshold), "must be 1")


def _validate_handler(handler: JSON, field: str) -> Iterator[Cause]:
    """Check that a probe or hook has exactly one handler."""
    given = [name for name in _HANDLERS if name in handler]
    for name in given[1:]:
        why = "may not specify more than 1 handler type"
        yield forbidden_field(f"{field}.{name}", why)
    if not given:
        yield required(field, "must specify a handler type")
        return
    action, where = handler[given[0]], f"{field}.{given[0]}"
    if given[0] == "exec" and not action.get("command"):
        yield required(f"{where}.command")
    if given[0] == "httpGet":
        if not action.get("path"):
            yield required(f"{where}.path")
        yield from validate_port(action.get("port", 0), f"{where}.port")
        if (scheme := action.get("scheme", "HTTP")) not in _SCHEMES:
            yield not_supported(f"{where}.scheme", shown(scheme), _SCHEMES)
    if given[0] in ("tcpSocket", "grpc"):
        yield from validate_port(action.get("port", 0), f"{where}.port")
