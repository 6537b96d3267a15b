"""Validation of limit ranges (core/validation, ValidateLimitRange)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.core.resources import HUGE_PAGES_PREFIX
from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import Quantity, parse_quantity
from controller_manager.control.quota.resources import is_extended, is_native
from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.validation.text import table

from .resourcequota_validation import STANDARD

POD: Final = "Pod"
CONTAINER: Final = "Container"
CLAIM: Final = "PersistentVolumeClaim"

_TYPES: Final = (POD, CONTAINER, CLAIM)
_OF_CONTAINERS: Final = frozenset(("cpu", "memory", "ephemeral-storage"))
_MOST: Final = (2**63 - 1) * 10**9
"""Billionths that a quantity of upstream holds at most; ours may be larger."""

_NO_DEFAULTS: Final = "may not be specified when `type` is 'Pod'"
_NO_STORAGE: Final = (
    "either minimum or maximum storage value is required, but neither was provided"
)
_AMOUNTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_COMPARED: Final = (
    ("min", "max", "min", "min value {} is greater than max value {}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "default value {} is greater than max value {}"),
)
"""The smaller field, the larger field, the field with the error, and the text."""


def _type(name: str, field: str) -> Iterator[Cause]:
    if problems := validate_qualified_name(name, field):
        yield from problems
    elif "/" not in name and name not in _TYPES:
        detail = "must be a standard limit type or fully qualified"
        yield invalid(field, shown(name), detail)


def _item(item: JSON, path: str, _: JSON) -> Iterator[Cause]:
    field = path[:-1]
    amounts: dict[str, dict[str, Quantity]] = {}
    for name in _AMOUNTS:
        if item["type"] == POD and name.startswith("default"):
            if item.get(name):
                yield forbidden_field(f"{field}.{name}", _NO_DEFAULTS)
            continue
        if name == "maxLimitRequestRatio" and item["type"] == CLAIM:
            yield from _storage(item, field)
        amounts[name] = {}
        for resource, text in (item.get(name) or {}).items():
            where = f"{field}.{name}[{resource}]"
            yield from _resource(item["type"], resource, where)
            amounts[name][resource] = parse_quantity(text)
    for resource in sorted({each for found in amounts.values() for each in found}):
        of_one = {
            name: found[resource]
            for name, found in amounts.items()
            if resource in found
        }
        yield from _amounts(of_one, resource, field)


def _storage(item: JSON, field: str) -> Iterator[Cause]:
    given = {*(item.get("min") or ()), *(item.get("max") or ())}
    if "storage" not in given:
        yield required(f"{field}.limits", _NO_STORAGE)


def _resource(kind: str, name: str, field: str) -> Iterator[Cause]:
    """Check the name of a resource: only containers and pods use some of them."""
    if problems := validate_qualified_name(name, field):
        yield from problems
        return
    is_huge = name.startswith(HUGE_PAGES_PREFIX)
    if "/" not in name and not is_huge and name not in STANDARD | {"storage"}:
        detail = "must be a standard resource type or fully qualified"
        yield invalid(field, shown(name), detail)
    if kind not in (POD, CONTAINER):
        return
    if "/" not in name and not is_huge and name not in _OF_CONTAINERS:
        detail = "must be a standard resource for containers"
        yield invalid(field, shown(name), detail)
    elif not is_native(name) and not is_extended(name):
        detail = "doesn't follow extended resource name standard"
        yield invalid(field, shown(name), detail)


def _amounts(
    amounts: dict[str, Quantity], resource: str, field: str
) -> Iterator[Cause]:
    """Compare the amounts of one resource, by the names of their fields."""
    for low, high, wrong, text in _COMPARED:
        if low in amounts and high in amounts and amounts[low] > amounts[high]:
            # Upstream shows the bound if the default is wrong.
            value = amounts[_shown_for(low, high, wrong)]
            detail = text.format(amounts[low], amounts[high])
            yield invalid(f"{field}.{wrong}[{resource}]", shown(str(value)), detail)
    if ratio := amounts.get("maxLimitRequestRatio"):
        yield from _ratio(ratio, amounts, f"{field}.maxLimitRequestRatio[{resource}]")
    default, request = amounts.get("default"), amounts.get("defaultRequest")
    is_fixed = not is_native(resource) or resource.startswith(HUGE_PAGES_PREFIX)
    if is_fixed and default is not None and request not in (None, default):
        detail = (
            f"default value {default} must equal to defaultRequest value {request} in "
            f"{resource}"
        )
        where = f"{field}.defaultRequest[{resource}]"
        yield invalid(where, shown(str(request)), detail)


def _shown_for(low: str, high: str, wrong: str) -> str:
    """Return the field whose amount the message shows."""
    if wrong == "default":
        return low if low == "min" else high
    return wrong


def _ratio(
    ratio: Quantity, amounts: dict[str, Quantity], field: str
) -> Iterator[Cause]:
    if ratio < Quantity.of(1):
        yield invalid(field, shown(str(ratio)), f"ratio {ratio} is less than 1")
    low, high = amounts.get("min"), amounts.get("max")
    if low is None or high is None or low.is_zero:
        return  # with a minimum of zero, the largest ratio is infinite
    if ratio.nanos * low.nanos > high.nanos * Quantity.of(1).nanos:
        most = min(high.nanos, _MOST) / min(low.nanos, _MOST)
        detail = f"ratio {ratio} is greater than max/min = {most:f}"
        yield invalid(field, shown(str(ratio)), detail)


def _the_type(item: JSON) -> str:
    return str(item["type"])


LIMIT_RANGE: Final = table(
    """
    spec:
      limits[]:
        type: type default empty
        type: unique by the_type
        hook item
    """,
    _type,
    _the_type,
    _item,
)
