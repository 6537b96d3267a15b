"""Validation of the environment of containers (ValidateEnv of pkg/apis/core)."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)

from .core.data_validation import key_problems

_NAME: Final = re.compile(r"[ -<>-~]+")
_NAME_TEXT: Final = (
    "a valid environment variable name must consist only of printable ASCII characters "
    "other than '='"
)
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")
_NO_SOURCE: Final = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or "
    "`secretKeyRef`"
)
_ONE_SOURCE: Final = "may not have more than one field specified at a time"
_WITH_VALUE: Final = "may not be specified when `value` is not empty"
_FIELDS: Final = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName"),
    *("spec.serviceAccountName", "status.hostIP", "status.hostIPs"),
    *("status.podIP", "status.podIPs"),
)
_OTHER_FIELDS: Final = (
    *("metadata.annotations", "metadata.labels", "spec.host", "spec.restartPolicy"),
    *("spec.schedulerName", "status.phase"),
)
_MAPS: Final = ("metadata.annotations", "metadata.labels")


def validate_environment(container: JSON, field: str) -> Iterator[Cause]:
    """Yield the errors in the variables of a container."""
    for number, variable in enumerate(container.get("env") or ()):
        where = f"{field}.env[{number}]"
        if name := variable.get("name"):
            yield from _validate_name(name, f"{where}.name")
        else:
            yield required(f"{where}.name")
        if "valueFrom" in variable:
            yield from _validate_source(variable, f"{where}.valueFrom")
    yield from _validate_from(container.get("envFrom") or (), f"{field}.envFrom")


def validate_key(key: str, field: str) -> list[Cause]:
    """Check the key of a config map or of a secret."""
    return [invalid(field, shown(key), why) for why in key_problems(key)]


def _validate_name(name: str, field: str) -> list[Cause]:
    return [] if _NAME.fullmatch(name) else [invalid(field, shown(name), _NAME_TEXT)]


def _validate_source(variable: JSON, field: str) -> Iterator[Cause]:
    source = variable["valueFrom"]
    given = [name for name in _SOURCES if name in source]
    for name in given:
        reference, where = source[name], f"{field}.{name}"
        if name == "fieldRef":
            yield from _validate_field(reference.get("fieldPath", ""), where)
        elif name == "resourceFieldRef":
            if not reference.get("resource"):
                yield required(f"{where}.resource")
        else:
            yield from _validate_reference(reference, where)
    if not given and "fileKeyRef" not in source:
        yield invalid(field, '""', _NO_SOURCE)
    elif variable.get("value"):
        yield invalid(field, '""', _WITH_VALUE)
    elif len(given) > 1:
        yield invalid(field, '""', _ONE_SOURCE)


def _validate_reference(reference: JSON, field: str) -> Iterator[Cause]:
    if not reference.get("name"):
        yield required(f"{field}.name")
    if key := reference.get("key"):
        yield from validate_key(key, f"{field}.key")
    else:
        yield required(f"{field}.key")


def _validate_field(path: str, field: str) -> Iterator[Cause]:
    where = f"{field}.fieldPath"
    if not path:
        yield required(where)
        return
    name, bracket, rest = path.partition("['")
    if bracket and rest.endswith("']"):
        if name in _MAPS:
            key = rest.removesuffix("']")
            key = key.lower() if name == _MAPS[0] else key
            yield from validate_qualified_name(key, where)
        else:
            yield invalid(where, shown(path), "does not support subscript")
    elif path not in (*_FIELDS, *_OTHER_FIELDS):
        why = f"error converting fieldPath: field label not supported: {path}"
        yield invalid(where, shown(path), why)
    elif path not in (*_FIELDS, "spec.host"):
        yield not_supported(where, shown(path), _FIELDS)


def _validate_from(sources: Sequence[JSON], field: str) -> Iterator[Cause]:
    for number, source in enumerate(sources):
        where = f"{field}[{number}]"
        if prefix := source.get("prefix"):
            yield from _validate_name(prefix, f"{where}.prefix")
        given = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in given:
            if not source[name].get("name"):
                yield required(f"{where}.{name}.name")
        if not given:
            why = "must specify one of: `configMapRef` or `secretRef`"
            yield invalid(field, '""', why)
        elif len(given) > 1:
            yield invalid(field, '""', _ONE_SOURCE)
