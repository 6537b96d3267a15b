"""Validation of reviews of access (pkg/apis/authorization/validation)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)

_PATH: Final = "nonResourceAttributes"
_RESOURCE: Final = "resourceAttributes"


def validate_self_review(obj: JSON) -> Iterator[Cause]:
    """Yield the errors in a review of the user of the request."""
    yield from _validate_attributes(obj.get("spec") or {})
    yield from _validate_selectors(obj.get("spec") or {})
    yield from _validate_metadata(obj, "must be empty")


def validate_review(obj: JSON) -> Iterator[Cause]:
    """Yield the errors in a review of any user."""
    yield from _validate_spec(obj.get("spec") or {})
    yield from _validate_metadata(obj, "must be empty")


def validate_local_review(obj: JSON) -> Iterator[Cause]:
    """Yield the errors in a review for one namespace."""
    spec = obj.get("spec") or {}
    yield from _validate_spec(spec)
    detail = "must be empty except for namespace"
    yield from _validate_metadata(obj, detail, "namespace")
    namespace = (obj.get("metadata") or {}).get("namespace", "")
    wanted = spec.get(_RESOURCE)
    if wanted is not None and wanted.get("namespace", "") != namespace:
        value = shown(wanted.get("namespace", ""))
        field = f"spec.{_RESOURCE}.namespace"
        yield invalid(field, value, "must match metadata.namespace")
    if (path := spec.get(_PATH)) is not None:
        detail = "disallowed on this kind of request"
        yield invalid(f"spec.{_PATH}", _shown_path(path), detail)


def _validate_spec(spec: JSON) -> Iterator[Cause]:
    yield from _validate_attributes(spec)
    if not spec.get("user") and not spec.get("groups"):
        detail = "at least one of user or group must be specified"
        yield invalid("spec.user", shown(spec.get("user", "")), detail)
    yield from _validate_selectors(spec)


def _validate_attributes(spec: JSON) -> Iterator[Cause]:
    path, resource = spec.get(_PATH), spec.get(_RESOURCE)
    if path is not None and resource is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        yield invalid(f"spec.{_PATH}", _shown_path(path), detail)
    if path is None and resource is None:
        detail = (
            "exactly one of nonResourceAttributes or resourceAttributes must be "
            "specified"
        )
        yield invalid(f"spec.{_RESOURCE}", '"null"', detail)


def _shown_path(path: JSON) -> str:
    """Return attributes as Go shows those of its storage type."""
    return shown({"Path": path.get("path", ""), "Verb": path.get("verb", "")})


def _validate_selectors(spec: JSON) -> Iterator[Cause]:
    wanted = spec.get(_RESOURCE) or {}
    for name in ("fieldSelector", "labelSelector"):
        selector = wanted.get(name)
        if selector is None:
            continue
        field = f"spec.{_RESOURCE}.{name}"
        raw, requirements = selector.get("rawSelector"), selector.get("requirements")
        if raw and requirements:
            detail = "may not specified at the same time as requirements"
            yield invalid(f"{field}.rawSelector", shown(raw), detail)
        if not raw and not requirements:
            detail = (
                f"when {field} is specified, requirements or rawSelector is required"
            )
            yield required(f"{field}.requirements", detail)
        for index, each in enumerate(requirements or ()):
            yield from _validate_requirement(each, f"{field}.requirements[{index}]")


def _validate_requirement(requirement: JSON, field: str) -> Iterator[Cause]:
    """Yield the errors in a requirement; unknown operators are not errors here."""
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator in ("In", "NotIn") and not values:
        yield required(
            f"{field}.values",
            "must be specified when `operator` is 'In' or 'NotIn'",
        )
    if operator in ("Exists", "DoesNotExist") and values:
        yield Cause(
            "FieldValueForbidden",
            f"{field}.values",
            "Forbidden: may not be specified when `operator` is 'Exists' or "
            "'DoesNotExist'",
        )
    if not requirement.get("key"):
        yield required(f"{field}.key", "must be specified")


def _validate_metadata(obj: JSON, detail: str, *allowed: str) -> Iterator[Cause]:
    metadata = obj.get("metadata") or {}
    rest = {
        name: value
        for name, value in metadata.items()
        if value and name not in ("managedFields", *allowed)
    }
    if rest:
        yield invalid("metadata", shown(metadata), detail)
