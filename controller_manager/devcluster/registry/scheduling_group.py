"""The field ``schedulingGroup`` of pods, which a server has behind a feature gate."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.options.gates import Gate

Path = tuple[str, ...]

GENERIC_WORKLOAD: Final = Gate("GenericWorkload", "ALPHA", default=False)
"""Pods may name the group with which they are scheduled."""

OF_POD: Final[Path] = ("spec",)
OF_TEMPLATE: Final[Path] = ("spec", "template", "spec")
"""The path of the spec of a pod, in a pod and in an object with a template."""

_FIELD: Final = "schedulingGroup"


def drop_scheduling_group(new: JSON, path: Path, old: JSON | None = None) -> None:
    """Remove the group from the pod spec at `path`, unless the `old` object has one.

    A server does so while the gate is disabled (dropDisabledFields in pkg/api/pod). The
    objects need not have their defaults yet.
    """
    if old is None or _FIELD not in _spec(old, path):
        _spec(new, path).pop(_FIELD, None)


def _spec(obj: JSON, path: Path) -> JSON:
    """Return the pod spec at a path, an empty one if the object lacks it."""
    for name in path:
        obj = obj.get(name) or {}
    return obj
