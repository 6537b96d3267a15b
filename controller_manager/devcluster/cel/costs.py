"""The additional steps of functions and operators on large values.

Without these costs, an expression of few nodes could make endless values, or compare
large values again and again. A step takes a few microseconds.
"""

from collections.abc import Sequence
from typing import Final

from .values import Value

_CHARACTERS: Final = 16
"""The number of characters that cost one step."""

_ITEMS: Final = 4
"""The number of items of a list, or entries of a map, that cost one step."""

_AT_ONCE: Final = frozenset(
    (
        "charAt",
        "dyn",
        "endsWith",
        "hasValue",
        "optional.of",
        "or",
        "orValue",
        "size",
        "startsWith",
        "type",
        "value",
    )
)
"""Functions that take the same time for values of each size."""

_PATTERNS: Final = frozenset(("find", "findAll", "matches"))
_DEEP: Final = frozenset(("format", "indexOf", "lastIndexOf", "string"))
"""Functions that read the items of items."""


def steps_of_call(function: str, arguments: Sequence[Value], most: int) -> int:
    """Return the steps of a call, or any number from `most` on if there are more.

    The target of a method is its first argument. Values of wrong types cost nothing:
    the function refuses them.
    """
    if function in _AT_ONCE:
        return 0
    match function, arguments:
        case _, (str() as text, str() as pattern) if function in _PATTERNS:
            return len(text) * len(pattern) // _CHARACTERS
        case "replace", (str() as text, str() as old, str() as new, *_):
            made = text.count(old) * len(new)
            return (len(text) + made) // _CHARACTERS
        case "join", (list() as items, *separator):
            made = sum(len(each) for each in items if isinstance(each, str))
            made += sum(len(each) for each in separator) * len(items)
            return (len(items) + made) // _CHARACTERS
        case _, (list() as one, list() as other) if function.startswith("sets."):
            return size_of(one, most) * (size_of(other, most) + 1)
    if function in _DEEP:
        return sum(size_of(each, most) for each in arguments)
    return sum(_length(each) for each in arguments)


def steps_of_operator(operator: str, one: Value, other: Value, most: int) -> int:
    """Return the steps of an operator with two operands."""
    match operator:
        case "+":
            return _length(one) + _length(other)
        case "==" | "!=":
            return min(size_of(one, most), size_of(other, most))
        case "in" if isinstance(other, list):
            return size_of(other, most)
    return 0


def size_of(value: Value, most: int) -> int:
    """Return the steps that a full read of a value takes, `most` at most.

    A value may contain the same part many times.
    """
    if not isinstance(value, list | dict):
        return _length(value)
    count, waiting = 0, [value]
    while waiting and count < most:
        found = waiting.pop()
        parts = found.values() if isinstance(found, dict) else found
        waiting.extend(each for each in parts if isinstance(each, list | dict))
        texts = sum(len(each) for each in parts if isinstance(each, str | bytes))
        count += 1 + len(found) // _ITEMS + texts // _CHARACTERS
    return min(count, most)


def _length(value: Value) -> int:
    if isinstance(value, str | bytes):
        return len(value) // _CHARACTERS
    return len(value) // _ITEMS if isinstance(value, list | dict) else 0
