"""Validation of match conditions (validateMatchConditions of admissionregistration)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    invalid,
    required,
    shown,
    too_many,
)

from .compilation import declared, problem_of

_MOST_CONDITIONS: Final = 64


def validate_conditions(
    conditions: list[JSON], field: str, *, params: bool
) -> list[Cause]:
    """Check conditions; `params` says whether they may use parameters of a policy."""
    causes = []
    if len(conditions) > _MOST_CONDITIONS:
        causes.append(too_many(field, len(conditions), _MOST_CONDITIONS))
    known = declared(params=params)
    names = [each.get("name", "") for each in conditions]
    for number, condition in enumerate(conditions):
        where, name = f"{field}[{number}]", names[number]
        expression = condition.get("expression", "").strip()
        if not expression:
            causes.append(required(f"{where}.expression"))
        elif problem := problem_of(expression, known, "bool"):
            causes.append(invalid(f"{where}.expression", shown(expression), problem))
        if not name:
            causes.append(required(f"{where}.name"))
            continue
        causes += validate_qualified_name(name, f"{where}.name")
        if name in names[:number]:
            causes.append(duplicate(f"{where}.name", shown(name)))
    return causes
