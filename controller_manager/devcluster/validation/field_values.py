"""Checks of single fields (pkg/apis/*/validation)."""

import re
from collections.abc import Iterator
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import ZERO, parse_quantity
from controller_manager.devcluster.scheme.names import (
    validate_labels,
    validate_subdomain,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
    too_long,
)

IMMUTABLE: Final = "field is immutable"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_POSITIVE: Final = "must be greater than zero"
_LONGEST_DRIVER: Final = 63


def validate_not_negative(obj: JSON, *names: str, field: str = "spec") -> list[Cause]:
    """Check that numbers are at least 0; `obj` stands in the field `field`."""
    return [
        cause
        for name in names
        for cause in validate_not_negative_at(obj.get(name, 0), f"{field}.{name}")
    ]


def validate_not_negative_at(value: int, field: str) -> list[Cause]:
    """Check that the number in a field is at least 0."""
    return [invalid(field, shown(value), NOT_NEGATIVE)] if value < 0 else []


def validate_unchanged(
    before: JSON, after: JSON, field: str, *names: str
) -> list[Cause]:
    """Check that an update changes none of the fields called `names`."""
    return [
        invalid(f"{field}.{name}", shown(after.get(name)), IMMUTABLE)
        for name in names
        if before.get(name) != after.get(name)
    ]


def validate_quantity(text: str, field: str) -> list[Cause]:
    """Check that a quantity is at least 0."""
    is_negative = parse_quantity(text) < ZERO
    return [invalid(field, shown(text), NOT_NEGATIVE)] if is_negative else []


def validate_positive_quantity(text: str, field: str) -> list[Cause]:
    """Check that a quantity is greater than 0."""
    is_positive = parse_quantity(text) > ZERO
    return [] if is_positive else [invalid(field, shown(text), _POSITIVE)]


def is_whole(amount: str) -> bool:
    """Tell whether a quantity has no thousandths besides whole numbers."""
    return parse_quantity(amount).milli_value % 1000 == 0


def validate_int_or_percent(value: Any, field: str) -> list[Cause]:
    """Check that a value is a number of at least 0, or a percentage."""
    if isinstance(value, int):
        return [invalid(field, shown(value), NOT_NEGATIVE)] if value < 0 else []
    if not re.fullmatch(r"[0-9]+%", str(value)):
        detail = (
            "a valid percent string must be a numeric string followed by an ending "
            "'%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
        return [invalid(field, shown(value), detail)]
    return []


def percent(value: Any) -> int:
    """Return the number of a percentage, 0 for anything else."""
    if isinstance(value, str) and value.removesuffix("%").isdecimal():
        return int(value.removesuffix("%"))
    return 0


def validate_descending_path(path: str, field: str) -> Iterator[Cause]:
    """Check that a path is relative and does not leave its volume."""
    if path.startswith("/"):
        yield invalid(field, shown(path), "must be a relative path")
    if ".." in path.split("/"):
        yield invalid(field, shown(path), "must not contain '..'")


def validate_driver(name: str, field: str) -> Iterator[Cause]:
    """Check the name of a driver: a subdomain in lower or upper case."""
    if not name:
        yield required(field)
        return
    if len(name) > _LONGEST_DRIVER:
        yield too_long(field, _LONGEST_DRIVER)
    yield from validate_subdomain(name.lower(), field)


def validate_label_value(value: str, field: str) -> list[Cause]:
    """Check the value of a label."""
    return validate_labels({"key": value}, field)
