"""Checks of the arguments of functions."""

from collections.abc import Callable
from typing import TypeVar

from controller_manager.devcluster.cel.values import (
    EvaluationError,
    UInt,
    Value,
    no_overload,
)

T = TypeVar("T")


def expect(value: Value, *types: type[T]) -> T:
    """Return a value of one of these types; raises EvaluationError for another.

    A bool and a uint do not count as an int.
    """
    if not isinstance(value, types):
        raise no_overload()
    if isinstance(value, bool | UInt) and type(value) not in types:
        raise no_overload()
    return value


def parsed(parse: Callable[[str], T], text: Value) -> T:
    """Return the parsed value of a text; raises EvaluationError if it is invalid."""
    try:
        return parse(expect(text, str))
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def is_parsed(parse: Callable[[str], Value], text: Value) -> bool:
    """Tell whether a text can be parsed."""
    try:
        parse(expect(text, str))
    except ValueError:
        return False
    return True
