"""Validation of conditions of the type metav1.Condition (meta/v1/validation)."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    invalid,
    not_supported,
    required,
    shown,
    too_long,
)

_STATUSES: Final = ("False", "True", "Unknown")
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_TEXT: Final = (
    "a condition reason must start with alphabetic character, optionally followed by "
    "a string of alphanumeric characters or '_,:', and must end with an alphanumeric "
    "character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or "
    "'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    f"'{_REASON.pattern}')"
)
_MAX_REASON: Final = 1024
_MAX_MESSAGE: Final = 32 * 1024


def validate_conditions(conditions: Sequence[JSON], field: str) -> Iterator[Cause]:
    """Yield the errors in the list of conditions in a field."""
    seen = set()
    for number, condition in enumerate(conditions):
        type_, path = condition.get("type", ""), f"{field}[{number}]"
        if type_ in seen:
            yield duplicate(f"{path}.type", shown(type_))
        seen.add(type_)
        yield from _validate_condition(condition, path)


def _validate_condition(condition: JSON, path: str) -> Iterator[Cause]:
    yield from validate_qualified_name(condition.get("type", ""), f"{path}.type")
    status = condition.get("status", "")
    if status not in _STATUSES:
        yield not_supported(f"{path}.status", shown(status), _STATUSES)
    if (generation := condition.get("observedGeneration", 0)) < 0:
        why = "must be greater than or equal to zero"
        yield invalid(f"{path}.observedGeneration", shown(generation), why)
    if not condition.get("lastTransitionTime"):
        yield required(f"{path}.lastTransitionTime", "must be set")
    yield from _validate_reason(condition.get("reason", ""), f"{path}.reason")
    if len(condition.get("message", "")) > _MAX_MESSAGE:
        yield too_long(f"{path}.message", _MAX_MESSAGE)


def _validate_reason(reason: str, path: str) -> Iterator[Cause]:
    if not reason:
        yield required(path, "must be set")
        return
    if not _REASON.fullmatch(reason):
        yield invalid(path, shown(reason), _REASON_TEXT)
    if len(reason) > _MAX_REASON:
        yield too_long(path, _MAX_REASON)
