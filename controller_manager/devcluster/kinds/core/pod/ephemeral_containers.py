"""The subresource ephemeralcontainers, which kubectl debug writes.

Upstream: podEphemeralContainersStrategy in pkg/registry/core/pod/strategy.go, and
validateEphemeralContainers in pkg/apis/core/validation.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    forbidden_field,
    shown,
)
from controller_manager.devcluster.validation.pods import POD_SPEC

from .metadata import with_old_metadata

_FIELD: Final = "ephemeralContainers"
_FORBIDDEN: Final = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_NEVER: Final = "cannot be set for an Ephemeral Container"


def replace_ephemeral_containers(old: JSON, new: JSON) -> JSON:
    """Return the old pod with the ephemeral containers of the new one."""
    spec = {name: each for name, each in old["spec"].items() if name != _FIELD}
    if containers := new["spec"].get(_FIELD):
        spec[_FIELD] = containers
    return {**with_old_metadata(old, new), "spec": spec}


def validate_ephemeral_containers(old: JSON, new: JSON) -> Sequence[Cause]:
    """Check the ephemeral containers; those that exist stay as they are."""
    spec = new["spec"]
    given = spec.get(_FIELD) or ()
    return [*_validate(spec, given), *_changed(old["spec"].get(_FIELD) or (), given)]


def _validate(spec: JSON, given: Sequence[JSON]) -> Iterator[Cause]:
    others = [
        each["name"]
        for name in ("containers", "initContainers")
        for each in spec.get(name) or ()
    ]
    names = list(others)
    for number, container in enumerate(given):
        field = f"spec.{_FIELD}[{number}]"
        yield from _as_container(spec, container, field)
        if container.get("name") in names:
            yield duplicate(f"{field}.name", shown(container["name"]))
        names.append(container.get("name", ""))
        target = container.get("targetContainerName")
        if target and target not in others:
            where = f"{field}.targetContainerName"
            yield Cause("FieldValueNotFound", where, f"Not found: {shown(target)}")
        for name in _FORBIDDEN:
            if container.get(name):
                yield forbidden_field(f"{field}.{name}", _NEVER)
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            for name in ("subPath", "subPathExpr"):
                if mount.get(name):
                    where = f"{field}.volumeMounts[{index}].{name}"
                    yield forbidden_field(where, _NEVER)


def _as_container(spec: JSON, container: JSON, field: str) -> Iterator[Cause]:
    """Yield the errors that any container of the pod can have."""
    plain = {name: each for name, each in container.items() if name not in _FORBIDDEN}
    alone = {**spec, "containers": [{**plain, "resources": {}}], "initContainers": []}
    prefix = "spec.containers[0]"
    for cause in POD_SPEC.errors(alone, {"spec": alone}, path="spec."):
        if cause.field.startswith(prefix):
            where = field + cause.field.removeprefix(prefix)
            yield Cause(cause.reason, where, cause.detail)


def _changed(old: Sequence[JSON], new: Sequence[JSON]) -> Iterator[Cause]:
    named = {each.get("name"): each for each in new}
    for container in old:
        which = f"existing ephemeral containers {shown(container['name'])}"
        found = named.get(container["name"])
        if found is None:
            yield forbidden_field(f"spec.{_FIELD}", f"{which} may not be removed\n")
        elif found != container:
            lines = "".join(
                f"\n-  {shown(name)}: {shown(container.get(name))},"
                f"\n+  {shown(name)}: {shown(found.get(name))},"
                for name in sorted(container.keys() | found.keys())
                if container.get(name) != found.get(name)
            )
            detail = f"{which} may not be changed{lines}\n"
            yield forbidden_field(f"spec.{_FIELD}", detail)
