"""The refusal of a configuration that sets fields of other managers.

Upstream: apimachinery/pkg/util/managedfields/internal/conflict.go.
"""

from collections.abc import Mapping

from controller_manager.devcluster.scheme.statuses import Refusal

from .entries import Manager
from .field_set import FieldSet, paths_of
from .field_type import shown_step


def conflict_of(conflicts: Mapping[Manager, FieldSet]) -> Refusal:
    """Return the refusal that names the managers, and their fields."""
    found = {
        _described(each): ["".join(map(shown_step, path)) for path in paths_of(fields)]
        for each, fields in sorted(conflicts.items(), key=lambda item: _order(item[0]))
    }
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {manager}",
            "field": path,
        }
        for manager, paths in found.items()
        for path in paths
    ]
    if len(causes) == 1:
        listed = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines: list[str] = []
        for manager, paths in found.items():
            lines.append(f"conflicts with {manager}:")
            lines += [f"- {path}" for path in paths]
        text = "\n".join(lines)
        listed = f"{len(causes)} conflicts: {text}"
    message = f"Apply failed with {listed}"
    return Refusal(409, "Conflict", message, {"causes": causes})


def _order(manager: Manager) -> tuple[str, str, str, str]:
    """Return the sort key for upstream's order of the encoded managers."""
    return (manager.name, manager.operation, manager.version, manager.subresource)


def _described(manager: Manager) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation == "Update":
        text += f" using {manager.version}"
    return text
