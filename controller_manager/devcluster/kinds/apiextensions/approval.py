"""Approval of definitions in groups of the Kubernetes project (pkg/apihelpers)."""

from typing import Final
from urllib.parse import urlsplit

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)

ANNOTATION: Final = "api-approved.kubernetes.io"
_PROTECTED: Final = ("k8s.io", "kubernetes.io")
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


def approval_condition(definition: JSON) -> tuple[str, str, str] | None:
    """Return status, reason and message of the condition, `None` for other groups."""
    if not _is_protected(definition):
        return None
    value = _annotation(definition)
    if value.startswith("unapproved"):
        return "False", "UnapprovedAnnotation", f'not approved: "{value}"'
    return "True", "ApprovedAnnotation", f"approved in {value}"


def validate_approval(definition: JSON, _: str, old: JSON) -> list[Cause]:
    """Check that a definition in a protected group says whether it is approved.

    An update may keep the annotation of the `old` definition, which is else empty.
    """
    value = _annotation(definition)
    if not _is_protected(definition) or _is_approved(value):
        return []
    if old and _annotation(old) == value:
        return []
    field, needs = f"metadata.annotations[{ANNOTATION}]", "protected groups must have"
    if not value:
        return [required(field, f'{needs} approval annotation "{ANNOTATION}", {_SEE}')]
    detail = (
        f'{needs} approval annotation "{ANNOTATION}" with either a URL or a reason '
        f'starting with "unapproved", {_SEE}'
    )
    return [invalid(field, shown(value), detail)]


def _annotation(definition: JSON) -> str:
    annotations: JSON = definition["metadata"].get("annotations", {})
    return str(annotations.get(ANNOTATION, ""))


def _is_protected(definition: JSON) -> bool:
    group = definition["spec"].get("group", "")
    return any(group == each or group.endswith(f".{each}") for each in _PROTECTED)


def _is_approved(value: str) -> bool:
    if value.startswith("unapproved"):
        return True
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)
