"""The subresource resize: the resources of containers change in place.

Upstream: podResizeStrategy in pkg/registry/core/pod/strategy.go, and ValidatePodResize
in pkg/apis/core/validation.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.core.resources import CPU, MEMORY
from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    shown,
)

from .metadata import with_old_metadata
from .qos import qos_class

_LISTS: Final = ("containers", "initContainers")
_CHANGED: Final = ("resources", "resizePolicy")
_AMOUNTS: Final = ("requests", "limits")
_MUTABLE: Final = (CPU, MEMORY)
_ONLY: Final = "only cpu and memory resources are mutable"


def replace_resources(old: JSON, new: JSON) -> JSON:
    """Return the old pod with the resources and resize policies of the new one.

    A pod with other containers stays as it is, for validation to refuse it.
    """
    if any(_names(old, name) != _names(new, name) for name in _LISTS):
        return new
    spec = dict(old["spec"])
    for name in _LISTS:
        if name in spec:
            pairs = zip(spec[name], new["spec"][name], strict=True)
            spec[name] = [_resized(*each) for each in pairs]
    return {**with_old_metadata(old, new), "spec": spec}


def _names(pod: JSON, name: str) -> list[str]:
    return [each["name"] for each in pod["spec"].get(name) or ()]


def _resized(old: JSON, new: JSON) -> JSON:
    rest = {name: each for name, each in old.items() if name not in _CHANGED}
    return {**rest, **{name: new[name] for name in _CHANGED if name in new}}


def validate_resize(old: JSON, new: JSON) -> Sequence[Cause]:
    """Check that only amounts of cpu and memory change, and none is removed."""
    if problems := [*_other_containers(old, new)]:
        return problems
    causes = []
    if old["status"].get("qosClass") != qos_class(new["spec"]):
        detail = "Pod QOS Class may not change as a result of resizing"
        causes.append(invalid("spec", shown(new["status"].get("qosClass")), detail))
    for name in ("initContainers", "containers"):
        lists = (each["spec"].get(name) or () for each in (old, new))
        for number, (before, after) in enumerate(zip(*lists, strict=True)):
            where = f"spec.{name}[{number}]"
            causes += _removed(before, after, f"{where}.resources")
            if _without_amounts(before) == _without_amounts(after):
                continue
            if name == "containers":
                causes.append(forbidden_field("spec", _ONLY))
                continue
            detail = _ONLY.replace("are", "for init or sidecar containers are")
            causes.append(forbidden_field(where, detail))
    return causes


def _other_containers(old: JSON, new: JSON) -> Iterator[Cause]:
    """Yield the containers that are added, removed, renamed or in another order."""
    for name in _LISTS:
        before, after = _names(old, name), _names(new, name)
        if len(before) != len(after):
            detail = f"{name} may not be added or removed on resize"
            yield forbidden_field(f"spec.{name}", detail)
            continue
        for number, pair in enumerate(zip(before, after, strict=True)):
            if pair[0] != pair[1]:
                detail = f"{name} may not be renamed or reordered on resize"
                yield forbidden_field(f"spec.{name}[{number}].name", detail)


def _removed(old: JSON, new: JSON, field: str) -> Iterator[Cause]:
    for name in _AMOUNTS:
        before = (old.get("resources") or {}).get(name) or {}
        after = (new.get("resources") or {}).get(name) or {}
        if before.keys() - after.keys():
            kind = f"resource {name} cannot be removed"
            yield forbidden_field(f"{field}.{name}", kind)


def _without_amounts(container: JSON) -> JSON:
    """Return a container without its amounts of cpu and memory."""
    resources = container.get("resources") or {}
    rest = {
        name: {
            resource: amount
            for resource, amount in (resources.get(name) or {}).items()
            if resource not in _MUTABLE
        }
        for name in _AMOUNTS
    }
    return {**container, "resources": {**resources, **rest}}
