"""The rules for containers and their resources (pkg/apis/core/validation)."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
from controller_manager.devcluster.scheme import names, statuses
from controller_manager.devcluster.scheme.statuses import Cause, shown

from . import values
from .rules import Rule
from .text import table

# Resources

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"
_NATIVE: Final = "kubernetes.io/"
_NO_LIMIT: Final = "Limit must be set for non overcommitable resources"


def _resources(resources: JSON, field: str) -> Iterator[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for resource, amount in limits.items():
        yield from _validate(resource, amount, f"{field}.limits[{resource}]")
    for resource, amount in requests.items():
        where = f"{field}.requests[{resource}]"
        causes = list(_validate(resource, amount, where))
        yield from causes
        if not causes:
            yield from _validate_limit(resource, amount, limits, field)


def _validate(resource: str, amount: str, field: str) -> Iterator[Cause]:
    yield from names.validate_qualified_name(resource, field)
    if "/" not in resource and not _is_standard(resource):
        why = "must be a standard resource for containers"
        yield statuses.invalid(field, shown(resource), why)
    yield from values.validate_quantity(amount, field)
    may_be_parted = "/" not in resource or resource.startswith(_NATIVE)
    if not may_be_parted and not values.is_whole(amount):
        yield statuses.invalid(field, shown(amount), "must be an integer")


def _validate_limit(
    resource: str, amount: str, limits: JSON, field: str
) -> Iterator[Cause]:
    """Check a request against the limit of the same resource."""
    limit, where = limits.get(resource), f"{field}.requests"
    is_fixed = not _is_standard(resource) or resource.startswith(_HUGE_PAGES)
    if resource.startswith(_NATIVE):
        is_fixed = False
    if limit is None:
        if is_fixed:
            yield statuses.required(f"{field}.limits", _NO_LIMIT)
        return
    wanted, most = parse_quantity(amount), parse_quantity(limit)
    if wanted != most and is_fixed:
        why = f"must be equal to {resource} limit of {limit}"
        yield statuses.invalid(where, shown(amount), why)
    elif wanted > most:
        why = f"must be less than or equal to {resource} limit of {limit}"
        yield statuses.invalid(where, shown(amount), why)


def _is_standard(resource: str) -> bool:
    return resource in _STANDARD or resource.startswith(_HUGE_PAGES)


# Containers

_ENVIRONMENT_NAME: Final = re.compile(r"[ -<>-~]+")
_FIELDS: Final = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName"),
    *("spec.serviceAccountName", "status.hostIP", "status.hostIPs"),
    *("status.podIP", "status.podIPs"),
)
_OTHER_FIELDS: Final = (
    *("metadata.annotations", "metadata.labels", "spec.host", "spec.restartPolicy"),
    *("spec.schedulerName", "status.phase"),
)
_ONE_SOURCE: Final = "may not have more than one field specified at a time"
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")


# Environment


def _environment_name(name: str, _: str) -> Iterator[str]:
    if not _ENVIRONMENT_NAME.fullmatch(name):
        yield (
            "a valid environment variable name must consist only of printable ASCII "
            "characters other than '='"
        )


def _field_path(path: str, field: str) -> Iterator[Cause]:
    """Check the path of a field of the pod whose value a variable gets."""
    name, bracket, rest = path.partition("['")
    if bracket and rest.endswith("']"):
        key = rest.removesuffix("']")
        if name in ("metadata.annotations", "metadata.labels"):
            key = key.lower() if name == "metadata.annotations" else key
            yield from names.validate_qualified_name(key, field)
        else:
            yield statuses.invalid(field, shown(path), "does not support subscript")
    elif path not in (*_FIELDS, *_OTHER_FIELDS):
        why = f"error converting fieldPath: field label not supported: {path}"
        yield statuses.invalid(field, shown(path), why)
    elif path not in (*_FIELDS, "spec.host"):
        yield statuses.not_supported(field, shown(path), _FIELDS)


def _one_source(source: JSON, path: str, variable: JSON) -> Iterator[Cause]:
    """Check that a variable has one source and no value."""
    given = [name for name in _SOURCES if name in source]
    if not given and "fileKeyRef" not in source:
        why = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or "
            "`secretKeyRef`"
        )
    elif variable.get("value"):
        why = "may not be specified when `value` is not empty"
    elif len(given) > 1:
        why = _ONE_SOURCE
    else:
        return
    yield statuses.invalid(path[:-1], '""', why)


def _one_map(source: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check that one map is the source of variables; the causes name the list."""
    count = ("configMapRef" in source) + ("secretRef" in source)
    if count != 1:
        none = "must specify one of: `configMapRef` or `secretRef`"
        where = path.rpartition("[")[0]
        yield statuses.invalid(where, '""', _ONE_SOURCE if count else none)


_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")
KEY_REFERENCE: Final = table("""
    name: required
    key: required config-key
    """)
_ENVIRONMENT: Final = table("""
    env[]:
      name: required environment_name
      valueFrom:
        fieldRef:
          fieldPath: required field_path
        resourceFieldRef:
          resource: required
        configMapKeyRef:
          include KEY_REFERENCE
        secretKeyRef:
          include KEY_REFERENCE
        hook one_source
    envFrom[]:
      prefix: environment_name
      configMapRef:
        name: required
      secretRef:
        name: required
      hook one_map
    """)

# Probes and hooks

_ACTIONS: Final = table("""
    exec:
      command: required
    httpGet:
      path: required
      port: port-or-name default 0
      scheme: enum HTTP HTTPS
    tcpSocket:
      port: port-or-name default 0
    """)
_HOOK: Final = table("""
    union: "must specify a handler type" "may not specify more than 1 handler type"
      include ACTIONS
      sleep: any
    """)
_PROBE: Final = table("""
    union: "must specify a handler type" "may not specify more than 1 handler type"
      include ACTIONS
      grpc:
        port: port-or-name default 0
    initialDelaySeconds, timeoutSeconds, periodSeconds, successThreshold: not-negative
    failureThreshold: not-negative
    """)
_RESTARTING_PROBE: Final = table("""
    include PROBE
    terminationGracePeriodSeconds: at-least 1 "must be greater than 0"
    successThreshold: range 1 1 "must be 1"
    """)
_LIFECYCLE: Final = table("""
    lifecycle:
      postStart:
        include HOOK
      preStop:
        include HOOK
    livenessProbe:
      include RESTARTING_PROBE
    readinessProbe:
      include PROBE
      terminationGracePeriodSeconds: refused "must not be set for readinessProbes"
    startupProbe:
      include RESTARTING_PROBE
    """)
_NO_LIFECYCLE: Final = table("""
    lifecycle, livenessProbe, readinessProbe, startupProbe: forbidden
      "may not be set for init containers without restartPolicy=Always"
    """)

# Mounts


def _mounts(container: JSON, path: str, spec: JSON) -> Iterator[Cause]:
    mounts = container.get("volumeMounts")
    if not mounts:
        return
    volumes = {each.get("name", "") for each in spec.get("volumes") or ()}
    paths = set()
    for number, mount in enumerate(mounts):
        where, name = f"{path}volumeMounts[{number}].", mount.get("name", "")
        if not name:
            yield statuses.required(f"{where}name")
        if name not in volumes:
            text = f"Not found: {shown(name)}"
            yield Cause("FieldValueNotFound", f"{where}name", text)
        if not (place := mount.get("mountPath", "")):
            yield statuses.required(f"{where}mountPath")
        if place in paths:
            yield statuses.invalid(f"{where}mountPath", shown(place), "must be unique")
        paths.add(place)
        yield from _mount_options(mount, where, f"{path}volumeMounts.", container)


def _mount_options(
    mount: JSON, where: str, around: str, container: JSON
) -> Iterator[Cause]:
    """Check how a volume is mounted; upstream leaves the index out of two paths."""
    if part := mount.get("subPath"):
        yield from values.validate_descending_path(part, f"{around}subPath")
    if expression := mount.get("subPathExpr"):
        if part:
            why = "subPathExpr and subPath are mutually exclusive"
            yield statuses.invalid(f"{where}subPathExpr", shown(expression), why)
        yield from values.validate_descending_path(expression, f"{around}subPathExpr")
    if (propagation := mount.get("mountPropagation")) is None:
        return
    field = f"{where}mountPropagation"
    if propagation not in _PROPAGATIONS:
        yield statuses.not_supported(field, shown(propagation), _PROPAGATIONS)
    privileged = (container.get("securityContext") or {}).get("privileged")
    if propagation == "Bidirectional" and not privileged:
        why = (
            "Bidirectional mount propagation is available only to privileged containers"
        )
        yield statuses.forbidden_field(field, why)


# Ports


def _valid_name(port: JSON) -> str | None:
    name = port.get("name")
    return name if name and not values.validate_port_name(name, "") else None


def _host_ports(containers: Sequence[JSON], path: str) -> Iterator[Cause]:
    """Check that no two containers want the same port of the node."""
    seen = set()
    for number, container in enumerate(containers):
        for index, port in enumerate(container.get("ports") or ()):
            if wanted := port.get("hostPort"):
                key = f"{port.get('protocol')}/{port.get('hostIP', '')}/{wanted}"
                if key in seen:
                    where = f"{path}[{number}].ports[{index}].hostPort"
                    yield statuses.duplicate(where, shown(key))
                seen.add(key)


def _host_network(spec: JSON, path: str) -> Iterator[Cause]:
    """Check that host ports equal container ports in the network of the node."""
    for name in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(name) or ()):
            for index, port in enumerate(container.get("ports") or ()):
                wanted = port.get("hostPort")
                if wanted and wanted != port.get("containerPort"):
                    where = f"{path}{name}[{number}].ports[{index}].hostPort"
                    why = "must match `containerPort` when `hostNetwork` is true"
                    yield statuses.invalid(where, shown(wanted), why)


# Containers


def _container_name(name: str, field: str) -> list[Cause]:
    return [] if names.is_label(name) else [names.not_a_label(name, field)]


def _adds_administrator(context: JSON, _: JSON) -> bool:
    return "SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ())


_CONTAINER: Final = table("""
    name: required container_name
    image: required
    terminationMessagePolicy: enum FallbackToLogsOnError File default null
    ports[]:
      name: port-name
      name: unique by valid_name
      containerPort: required
      containerPort, hostPort: port
      protocol: enum SCTP TCP UDP default null
    include ENVIRONMENT
    hook mounts
    imagePullPolicy: enum Always IfNotPresent Never default null
    resources: resources
    securityContext:
      runAsUser, runAsGroup: at-least 0
        "must be between 0 and 2147483647, inclusive"
      when allowPrivilegeEscalation is false:
        self: invalid if privileged is true
          "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        self: invalid if adds_administrator
          "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add`"
          "CAP_SYS_ADMIN"
    """)


def _containers(spec: JSON, path: str, errors: list[Cause], workload: JSON) -> None:
    """Check the containers of a pod, each and with the others.

    The pods of a stateful set have one more volume for each template of a claim.
    """
    if claims := workload.get("volumeClaimTemplates"):
        more = [{"name": each.get("metadata", {}).get("name", "")} for each in claims]
        spec = {**spec, "volumes": [*(spec.get("volumes") or ()), *more]}
    if not spec.get("containers"):
        errors.append(statuses.required(f"{path}containers"))
    seen: set[str] = set()
    for name in ("containers", "initContainers"):
        containers = spec.get(name) or ()
        for number, container in enumerate(containers):
            where = f"{path}{name}[{number}]."
            _CONTAINER.run(container, where, errors, spec)
            own = container.get("name", "")
            if own and own in seen:
                errors.append(statuses.duplicate(f"{where}name", shown(own)))
            seen.add(own)
            ends = name != "containers" and container.get("restartPolicy") != "Always"
            (_NO_LIFECYCLE if ends else _LIFECYCLE).run(container, where, errors, spec)
        errors.extend(_host_ports(containers, f"{path}{name}"))
    if spec.get("hostNetwork"):
        errors.extend(_host_network(spec, path))


CONTAINERS: Final = Rule(
    _containers,
    "containers",
    "initContainers",
    below=(_CONTAINER, _LIFECYCLE, _NO_LIFECYCLE),
)
