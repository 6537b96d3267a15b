"""Validation of what containers request (ValidateContainerResourceRequirements)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)

from .field_values import is_whole, validate_quantity

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"
_NATIVE: Final = "kubernetes.io/"
_NO_LIMIT: Final = "Limit must be set for non overcommitable resources"


def validate_resources(resources: JSON, field: str) -> Iterator[Cause]:
    """Yield the errors in the requests and the limits of a container."""
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
    yield from validate_qualified_name(resource, field)
    if "/" not in resource and not _is_standard(resource):
        why = "must be a standard resource for containers"
        yield invalid(field, shown(resource), why)
    yield from validate_quantity(amount, field)
    if _may_not_be_parted(resource) and not is_whole(amount):
        yield invalid(field, shown(amount), "must be an integer")


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
            yield required(f"{field}.limits", _NO_LIMIT)
        return
    wanted, most = parse_quantity(amount), parse_quantity(limit)
    if wanted != most and is_fixed:
        why = f"must be equal to {resource} limit of {limit}"
        yield invalid(where, shown(amount), why)
    elif wanted > most:
        why = f"must be less than or equal to {resource} limit of {limit}"
        yield invalid(where, shown(amount), why)


def _is_standard(resource: str) -> bool:
    return resource in _STANDARD or resource.startswith(_HUGE_PAGES)


def _may_not_be_parted(resource: str) -> bool:
    """Tell whether only whole numbers of a resource can be requested."""
    return "/" in resource and not resource.startswith(_NATIVE)
