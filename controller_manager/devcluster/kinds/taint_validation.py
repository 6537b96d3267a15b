"""Validation of taints and tolerations (pkg/apis/core/validation)."""

from collections.abc import Iterator, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import (
    validate_labels,
    validate_qualified_name,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    invalid,
    not_supported,
    required,
    shown,
)

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_EQUAL: Final = ("Equal", "")
_EXISTS: Final = "Exists"
_COMPARISONS: Final = ("Gt", "Lt")
"""Operators that upstream has behind the gate TaintTolerationComparisonOperators."""

_UNIQUE: Final = "taints must be unique by key and effect pair"
_ALL_KEYS: Final = (
    'operator must be Exists when `key` is empty, which means "match all values and '
    'all keys"'
)
_NO_EXECUTE: Final = "effect must be 'NoExecute' when `tolerationSeconds` is set"
_NO_VALUE: Final = "value must be empty when `operator` is 'Exists'"


def validate_taints(taints: Sequence[JSON]) -> Iterator[Cause]:
    """Yield the errors in the taints of a node.

    Upstream calls the field ``metadata.taints``.
    """
    seen = set()
    for number, taint in enumerate(taints):
        field = f"metadata.taints[{number}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        yield from validate_qualified_name(key, f"{field}.key")
        yield from _validate_value(taint, f"{field}.value")
        if effect:
            yield from _validate_effect(effect, f"{field}.effect")
        else:
            yield required(f"{field}.effect")
        if (key, effect) in seen:
            cause = duplicate(field, shown(_as_go_prints(taint)))
            yield Cause(cause.reason, field, f"{cause.detail}: {_UNIQUE}")
        seen.add((key, effect))


def validate_tolerations(tolerations: Sequence[JSON], field: str) -> Iterator[Cause]:
    """Yield the errors in the tolerations of a pod."""
    for number, toleration in enumerate(tolerations):
        yield from _validate_toleration(toleration, f"{field}[{number}]")


def _validate_toleration(toleration: JSON, field: str) -> Iterator[Cause]:
    operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
    if key := toleration.get("key"):
        yield from validate_qualified_name(key, f"{field}.key")
    elif operator != _EXISTS:
        yield invalid(f"{field}.operator", shown(operator), _ALL_KEYS)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(f"{field}.effect", shown(effect), _NO_EXECUTE)
    if operator in _EQUAL:
        yield from _validate_value(toleration, f"{field}.operator")
    elif operator == _EXISTS:
        if toleration.get("value"):
            yield invalid(f"{field}.operator", shown(toleration), _NO_VALUE)
    elif operator not in _COMPARISONS:
        supported = ("Equal", _EXISTS)
        yield not_supported(f"{field}.operator", shown(operator), supported)
    if effect:
        yield from _validate_effect(effect, f"{field}.effect")


def _validate_value(obj: JSON, field: str) -> Iterator[Cause]:
    yield from validate_labels({"key": obj.get("value", "")}, field)


def _validate_effect(effect: str, field: str) -> Iterator[Cause]:
    if effect not in _EFFECTS:
        yield not_supported(field, shown(effect), _EFFECTS)


def _as_go_prints(taint: JSON) -> JSON:
    """Return a taint with the names of the fields of Go's internal type."""
    return {
        "Key": taint.get("key", ""),
        "Value": taint.get("value", ""),
        "Effect": taint.get("effect", ""),
        "TimeAdded": taint.get("timeAdded"),
    }
