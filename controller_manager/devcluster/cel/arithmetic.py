"""Operators with two operands (common/types of cel-go)."""

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from .values import (
    MOST_UINT,
    EvaluationError,
    UInt,
    Value,
    are_equal,
    contains,
    is_number,
    no_overload,
    whole,
)

_ORDERED: Final = (str, bytes, bool, datetime, timedelta)


def _checked(result: Value, like: Value) -> Value:
    """Return a result in the type of its operands, if it fits; an overflow raises."""
    if isinstance(like, UInt):
        if not 0 <= result <= MOST_UINT:
            msg = "unsigned integer overflow"
            raise EvaluationError(msg)
        return UInt(result)
    return result if isinstance(like, float) else whole(result)


def _same_numbers(one: Value, other: Value) -> bool:
    return is_number(one) and type(one) is type(other)


def add(one: Value, other: Value) -> Value:
    """Add numbers or times; join texts, bytes or lists."""
    if _same_numbers(one, other):
        return _checked(int(one) + int(other) if _is_whole(one) else one + other, one)
    match one, other:
        case (str(), str()) | (bytes(), bytes()) | (list(), list()):
            return one + other
        case (
            (datetime(), timedelta())
            | (timedelta(), datetime())
            | (timedelta(), timedelta())
        ):
            return one + other
    raise no_overload()


def _is_whole(value: Value) -> bool:
    return isinstance(value, int)


def _subtract(one: Value, other: Value) -> Value:
    if _same_numbers(one, other):
        return _checked(int(one) - int(other) if _is_whole(one) else one - other, one)
    match one, other:
        case (
            (datetime(), datetime())
            | (datetime(), timedelta())
            | (timedelta(), timedelta())
        ):
            return one - other
    raise no_overload()


def _multiply(one: Value, other: Value) -> Value:
    if _same_numbers(one, other):
        return _checked(int(one) * int(other) if _is_whole(one) else one * other, one)
    raise no_overload()


def _divide(one: Value, other: Value) -> Value:
    if not _same_numbers(one, other):
        raise no_overload()
    if isinstance(one, float):
        if other:
            return one / other
        return math.nan if not one or math.isnan(one) else math.copysign(math.inf, one)
    if not other:
        msg = "division by zero"
        raise EvaluationError(msg)
    quotient = abs(int(one)) // abs(int(other))
    return _checked(quotient if (one < 0) == (other < 0) else -quotient, one)


def _modulo(one: Value, other: Value) -> Value:
    if not _same_numbers(one, other) or isinstance(one, float):
        raise no_overload()
    if not other:
        msg = "modulus by zero"
        raise EvaluationError(msg)
    rest = abs(int(one)) % abs(int(other))
    return _checked(-rest if one < 0 else rest, one)


def compare(one: Value, other: Value) -> int:
    """Return -1, 0 or 1, as one value is less than the other, equal or greater."""
    if is_number(one) and is_number(other):
        return int(one > other) - int(one < other)
    if type(one) is not type(other) or not isinstance(one, _ORDERED):
        raise no_overload()
    return int(one > other) - int(one < other)


def _ordered(test: Callable[[int], bool]) -> Callable[[Value, Value], bool]:
    def operator(one: Value, other: Value) -> bool:
        order = compare(one, other)
        has_nan = any(
            isinstance(each, float) and math.isnan(each) for each in (one, other)
        )
        return not has_nan and test(order)

    return operator


OPERATORS: Final[Mapping[str, Callable[[Value, Value], Value]]] = {
    "+": add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _modulo,
    "==": are_equal,
    "!=": lambda one, other: not are_equal(one, other),
    "<": _ordered(lambda order: order < 0),
    "<=": _ordered(lambda order: order <= 0),
    ">": _ordered(lambda order: order > 0),
    ">=": _ordered(lambda order: order >= 0),
    "in": lambda one, other: contains(other, one),
}


def negative(value: Value) -> Value:
    """Return a number with the other sign."""
    if not is_number(value) or isinstance(value, UInt):
        raise no_overload()
    return -value if isinstance(value, float) else whole(-value)
