"""Values that may be absent (cel/library.go of cel-go, OptionalTypes)."""

from collections.abc import Callable, Mapping
from typing import Final

from controller_manager.devcluster.cel.values import (
    NOTHING,
    EvaluationError,
    Maybe,
    Value,
)

from .checks import expect


def _value(optional: Value) -> Value:
    found = expect(optional, Maybe)
    if not found.values:
        msg = "optional.none() dereference"
        raise EvaluationError(msg)
    return found.values[0]


def _is_zero(value: Value) -> bool:
    return value is None or (not value and not isinstance(value, Maybe))


GLOBALS: Final[Mapping[str, Callable[..., Value]]] = {
    "optional.none": lambda: NOTHING,
    "optional.of": lambda value: Maybe((value,)),
    "optional.ofNonZeroValue": lambda value: (
        NOTHING if _is_zero(value) else Maybe((value,))
    ),
}
METHODS: Final[Mapping[str, Callable[..., Value]]] = {
    "hasValue": lambda optional: bool(expect(optional, Maybe).values),
    "or": lambda one, other: one if expect(one, Maybe).values else expect(other, Maybe),
    "orValue": lambda one, other: one.values[0] if expect(one, Maybe).values else other,
    "value": _value,
}
