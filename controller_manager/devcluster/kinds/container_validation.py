"""Validation of containers (validateContainers of pkg/apis/core/validation)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import is_label, not_a_label
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)

from .environment_validation import validate_environment
from .ports import PROTOCOLS, validate_port_name, validate_port_number
from .probe_validation import validate_lifecycle
from .resource_validation import validate_resources

_MESSAGE_POLICIES: Final = ("FallbackToLogsOnError", "File")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_PRIVILEGED: Final = (
    "Bidirectional mount propagation is available only to privileged containers"
)
_LIFECYCLE: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_TWO_PATHS: Final = "subPathExpr and subPath are mutually exclusive"


def validate_containers(
    spec: JSON, volumes: frozenset[str], field: str
) -> Iterator[Cause]:
    """Yield the errors in the containers of a pod with these volumes."""
    if not spec.get("containers"):
        yield required(f"{field}.containers")
    seen: set[str] = set()
    for name in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(name) or ()):
            where = f"{field}.{name}[{number}]"
            yield from _validate_container(container, volumes, where, seen)
            if name == "initContainers" and container.get("restartPolicy") != "Always":
                yield from _validate_init_container(container, where)
            else:
                yield from validate_lifecycle(container, where)
        yield from _validate_host_ports(spec.get(name) or (), f"{field}.{name}")
    if spec.get("hostNetwork"):
        yield from _validate_host_network(spec, field)


def _validate_container(
    container: JSON, volumes: frozenset[str], field: str, seen: set[str]
) -> Iterator[Cause]:
    name = container.get("name", "")
    if not name:
        yield required(f"{field}.name")
    elif not is_label(name):
        yield not_a_label(name, f"{field}.name")
    if not container.get("image"):
        yield required(f"{field}.image")
    if (policy := container.get("terminationMessagePolicy")) not in _MESSAGE_POLICIES:
        where = f"{field}.terminationMessagePolicy"
        yield not_supported(where, shown(policy), _MESSAGE_POLICIES)
    yield from _validate_ports(container.get("ports") or (), f"{field}.ports")
    yield from validate_environment(container, field)
    yield from _validate_mounts(container, volumes, f"{field}.volumeMounts")
    if (policy := container.get("imagePullPolicy")) not in _PULL_POLICIES:
        where = f"{field}.imagePullPolicy"
        yield not_supported(where, shown(policy), _PULL_POLICIES)
    yield from validate_resources(container["resources"], f"{field}.resources")
    yield from _validate_security(container.get("securityContext") or {}, field)
    if name and name in seen:
        yield duplicate(f"{field}.name", shown(name))
    seen.add(name)


def _validate_init_container(container: JSON, field: str) -> Iterator[Cause]:
    """Check that init containers that are no sidecars have no probes or hooks."""
    for name in _LIFECYCLE:
        if name in container:
            why = "may not be set for init containers without restartPolicy=Always"
            yield forbidden_field(f"{field}.{name}", why)


def _validate_ports(ports: Sequence[JSON], field: str) -> Iterator[Cause]:
    names = set()
    for number, port in enumerate(ports):
        where = f"{field}[{number}]"
        if name := port.get("name"):
            causes = validate_port_name(name, f"{where}.name")
            yield from causes
            if not causes and name in names:
                yield duplicate(f"{where}.name", shown(name))
            names.add(name)
        if value := port.get("containerPort"):
            yield from validate_port_number(value, f"{where}.containerPort")
        else:
            yield required(f"{where}.containerPort")
        if value := port.get("hostPort"):
            yield from validate_port_number(value, f"{where}.hostPort")
        if (protocol := port.get("protocol")) not in PROTOCOLS:
            yield not_supported(f"{where}.protocol", shown(protocol), PROTOCOLS)


def _validate_host_ports(containers: Sequence[JSON], field: str) -> Iterator[Cause]:
    """Check that no two containers want the same port of the node."""
    seen = set()
    for number, container in enumerate(containers):
        for index, port in enumerate(container.get("ports") or ()):
            if not (wanted := port.get("hostPort")):
                continue
            key = f"{port.get('protocol')}/{port.get('hostIP', '')}/{wanted}"
            if key in seen:
                where = f"{field}[{number}].ports[{index}].hostPort"
                yield duplicate(where, shown(key))
            seen.add(key)


def _validate_host_network(spec: JSON, field: str) -> Iterator[Cause]:
    """Check that host ports equal container ports in the network of the node."""
    for name in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(name) or ()):
            for index, port in enumerate(container.get("ports") or ()):
                wanted = port.get("hostPort")
                if wanted and wanted != port.get("containerPort"):
                    where = f"{field}.{name}[{number}].ports[{index}].hostPort"
                    why = "must match `containerPort` when `hostNetwork` is true"
                    yield invalid(where, shown(wanted), why)


def _validate_mounts(
    container: JSON, volumes: frozenset[str], field: str
) -> Iterator[Cause]:
    paths = set()
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        where, name = f"{field}[{number}]", mount.get("name", "")
        if not name:
            yield required(f"{where}.name")
        if name not in volumes:
            text = f"Not found: {shown(name)}"
            yield Cause("FieldValueNotFound", f"{where}.name", text)
        path = mount.get("mountPath", "")
        if not path:
            yield required(f"{where}.mountPath")
        if path in paths:
            yield invalid(f"{where}.mountPath", shown(path), "must be unique")
        paths.add(path)
        yield from _validate_mount_options(mount, container, where, field)


def _validate_mount_options(
    mount: JSON, container: JSON, where: str, field: str
) -> Iterator[Cause]:
    if part := mount.get("subPath"):
        yield from validate_descending_path(part, f"{field}.subPath")
    if expression := mount.get("subPathExpr"):
        if part:
            yield invalid(f"{where}.subPathExpr", shown(expression), _TWO_PATHS)
        yield from validate_descending_path(expression, f"{field}.subPathExpr")
    propagation = mount.get("mountPropagation")
    if propagation is None:
        return
    if propagation not in _PROPAGATIONS:
        name = f"{where}.mountPropagation"
        yield not_supported(name, shown(propagation), _PROPAGATIONS)
    privileged = (container.get("securityContext") or {}).get("privileged")
    if propagation == "Bidirectional" and not privileged:
        yield forbidden_field(f"{where}.mountPropagation", _PRIVILEGED)


def validate_descending_path(path: str, field: str) -> list[Cause]:
    """Check that a path is relative and does not leave its volume."""
    causes = []
    if path.startswith("/"):
        causes.append(invalid(field, shown(path), "must be a relative path"))
    if ".." in path.split("/"):
        causes.append(invalid(field, shown(path), "must not contain '..'"))
    return causes


def _validate_security(context: Mapping[str, Any], field: str) -> Iterator[Cause]:
    where = f"{field}.securityContext"
    for name in ("runAsUser", "runAsGroup"):
        if (number := context.get(name, 0)) < 0:
            why = "must be between 0 and 2147483647, inclusive"
            yield invalid(f"{where}.{name}", shown(number), why)
    if context.get("allowPrivilegeEscalation", True):
        return
    if context.get("privileged"):
        why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield invalid(where, shown(context), why)
    if "SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
        why = (
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` "
            "CAP_SYS_ADMIN"
        )
        yield invalid(where, shown(context), why)
