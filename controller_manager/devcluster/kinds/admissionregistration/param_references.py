"""References to the parameters of a policy (validateParamRef)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.columns import selector_text
from controller_manager.devcluster.scheme.names import validate_path_segment
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.label_selectors import validate_selector

_NOT_FOUND_ACTIONS: Final = ("Deny", "Allow")


def reference_text(reference: JSON | None) -> str:
    """Return a reference as kubectl shows it."""
    if not reference:
        return "<unset>"
    if name := reference.get("name"):
        namespace = reference.get("namespace")
        return f"{namespace}/{name}" if namespace else name
    return selector_text(reference.get("selector"))


def validate_reference(reference: JSON, field: str) -> list[Cause]:
    """Check the name or selector, and the action if no parameters exist."""
    causes = []
    has_name, has_selector = reference.get("name"), "selector" in reference
    if has_name:
        causes += validate_path_segment(reference["name"], f"{field}.name")
    if has_selector:
        causes += validate_selector(reference["selector"], f"{field}.selector")
    if not has_name and not has_selector:
        causes.append(required(field, "one of name or selector must be specified"))
    if has_name and has_selector:
        detail = "name and selector are mutually exclusive"
        causes += [
            forbidden_field(f"{field}.{name}", detail) for name in ("name", "selector")
        ]
    action, where = reference.get("parameterNotFoundAction"), "parameterNotFoundAction"
    if action is None:
        causes.append(required(f"{field}.{where}"))
    elif action not in _NOT_FOUND_ACTIONS:
        value = shown(action)
        causes.append(not_supported(f"{field}.{where}", value, _NOT_FOUND_ACTIONS))
    return causes
