"""Label selectors in the specs of objects (ValidateLabelSelector of apimachinery)."""

from typing import Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import (
    LabelSelector,
    SelectorError,
    compile_selector,
)
from controller_manager.devcluster.scheme.names import (
    validate_labels,
    validate_qualified_name,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    required,
    shown,
)

NO_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
TOO_MANY_VALUES: Final = (
    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
)
_WITH_VALUES: Final = ("In", "NotIn")
_WITHOUT_VALUES: Final = ("Exists", "DoesNotExist")


def validate_selector(selector: JSON | None, field: str) -> list[Cause]:
    """Check that a label selector is valid."""
    given = selector or {}
    causes = validate_labels(given.get("matchLabels") or {}, f"{field}.matchLabels")
    for number, each in enumerate(given.get("matchExpressions") or ()):
        causes += _validate_requirement(each, f"{field}.matchExpressions[{number}]")
    return causes


def _validate_requirement(each: JSON, field: str) -> list[Cause]:
    operator, values = each.get("operator", ""), each.get("values") or []
    where, causes = f"{field}.values", []
    if operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
        value, why = shown(operator), "not a valid selector operator"
        causes.append(invalid(f"{field}.operator", value, why))
    elif operator in _WITH_VALUES and not values:
        causes.append(required(where, NO_VALUES))
    elif operator in _WITHOUT_VALUES and values:
        causes.append(forbidden_field(where, TOO_MANY_VALUES))
    causes += validate_qualified_name(each.get("key", ""), f"{field}.key")
    for number, value in enumerate(values):
        causes += validate_labels({"key": value}, f"{where}[{number}]")
    return causes


def selects(selector: JSON | None, labels: dict[str, str]) -> bool:
    """Tell whether a selector selects objects with these labels.

    An absent selector selects nothing. An invalid selector selects everything, because
    another check reports it.
    """
    try:
        return selector is not None and compile_selector(_typed(selector)).matches(
            labels
        )
    except SelectorError:
        return True


def _typed(selector: JSON | None) -> LabelSelector:
    return msgspec.convert(selector or {}, LabelSelector)
