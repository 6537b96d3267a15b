"""Validation of a pod's spec (pkg/apis/core/validation)."""

from typing import Any, Final

from controller_manager.devcluster.kinds.field_values import (
    NOT_NEGATIVE,
    validate_quantity,
)
from controller_manager.devcluster.kinds.taint_validation import validate_tolerations
from controller_manager.devcluster.server.names import is_label, not_a_label
from controller_manager.devcluster.server.statuses import (
    Cause,
    duplicate,
    invalid,
    not_supported,
    required,
    shown,
)

JSON = dict[str, Any]

_MAX_PORT: Final = 65535


def validate_pod_spec(spec: JSON, field: str) -> list[Cause]:
    """Check the spec of a pod or of a pod template."""
    containers = spec.get("containers", [])
    causes = []
    if not containers:
        causes.append(required(f"{field}.containers"))
    seen: set[str] = set()
    for name in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(name, [])):
            where = f"{field}.{name}[{number}]"
            causes += _container(container, where, seen)
    policies = ("Always", "OnFailure", "Never")
    if spec.get("restartPolicy") not in policies:
        value = shown(spec.get("restartPolicy"))
        causes.append(not_supported(f"{field}.restartPolicy", value, policies))
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        value = shown(spec["terminationGracePeriodSeconds"])
        where = f"{field}.terminationGracePeriodSeconds"
        causes.append(invalid(where, value, NOT_NEGATIVE))
    tolerations = spec.get("tolerations", ())
    return [*causes, *validate_tolerations(tolerations, f"{field}.tolerations")]


def _container(container: JSON, field: str, seen: set[str]) -> list[Cause]:
    causes = []
    name = container.get("name", "")
    if not name:
        causes.append(required(f"{field}.name"))
    elif not is_label(name):
        causes.append(not_a_label(name, f"{field}.name"))
    elif name in seen:
        causes.append(duplicate(f"{field}.name", shown(name)))
    seen.add(name)
    if not container.get("image"):
        causes.append(required(f"{field}.image"))
    causes += _ports(container.get("ports", []), f"{field}.ports")
    policies = ("Always", "IfNotPresent", "Never")
    if container.get("imagePullPolicy") not in policies:
        value = shown(container.get("imagePullPolicy"))
        causes.append(not_supported(f"{field}.imagePullPolicy", value, policies))
    for group in ("limits", "requests"):
        for resource, amount in container["resources"].get(group, {}).items():
            causes += validate_quantity(
                amount, f"{field}.resources.{group}[{resource}]"
            )
    return causes


def _ports(ports: list[JSON], field: str) -> list[Cause]:
    causes = []
    for number, port in enumerate(ports):
        where = f"{field}[{number}].containerPort"
        value = port.get("containerPort")
        if value is None:
            causes.append(required(where))
        elif not 0 < value <= _MAX_PORT:
            detail = f"must be between 1 and {_MAX_PORT}, inclusive"
            causes.append(invalid(where, shown(value), detail))
    return causes
