"""Operators on scalars (the standard environment of cel-go).

Ordering compares any two numbers (CrossTypeNumericComparisons, as the API server sets).
"""

from collections.abc import Sequence
from itertools import product
from typing import Final

from .types import BOOL, DYN, Scalar, Type

_NUMBERS: Final = ("int", "uint", "double")
_COMPARED: Final = (*_NUMBERS, "string", "bytes", "bool", "timestamp", "duration")

_SAME: Final = frozenset((each, each) for each in _COMPARED)
_ORDERED: Final = _SAME | frozenset(product(_NUMBERS, _NUMBERS))
_ARITHMETIC: Final = frozenset((each, each) for each in _NUMBERS)
_WHOLE: Final = frozenset((each, each) for each in ("int", "uint"))
_BOOLEAN: Final = frozenset((("bool", "bool"),))

_ADDED: Final = _ARITHMETIC | {
    ("string", "string"),
    ("bytes", "bytes"),
    ("timestamp", "duration"),
    ("duration", "timestamp"),
    ("duration", "duration"),
}
_SUBTRACTED: Final = _ARITHMETIC | {
    ("timestamp", "timestamp"),
    ("timestamp", "duration"),
    ("duration", "duration"),
}

_DEFINED: Final[dict[str, frozenset[tuple[str, ...]]]] = {
    **dict.fromkeys(("==", "!="), _SAME),
    **dict.fromkeys(("<", "<=", ">", ">="), _ORDERED),
    **dict.fromkeys(("&&", "||"), _BOOLEAN),
    **dict.fromkeys(("*", "/"), _ARITHMETIC),
    "%": _WHOLE,
    "+": _ADDED,
    "-": _SUBTRACTED,
}
_UNARY: Final[dict[str, tuple[str, ...]]] = {"!": ("bool",), "-": ("int", "double")}
_RELATIONS: Final = frozenset(("==", "!=", "<", "<=", ">", ">=", "&&", "||", "!", "in"))


def is_defined(operator: str, operands: Sequence[Type]) -> bool:
    """Tell whether an operator may be defined for operands of these types.

    It is not if all are scalars, and the operator has no overload for them.
    """
    names = tuple(each.name for each in operands if isinstance(each, Scalar))
    if len(names) < len(operands) or not set(names) <= set(_COMPARED):
        return True
    if len(names) == 1:
        return names[0] in _UNARY[operator]
    return operator not in _DEFINED or names in _DEFINED[operator]


def result_of(operator: str, operands: Sequence[Type]) -> Type:
    """Return the type of an operation that is defined."""
    if operator in _RELATIONS:
        return BOOL
    match operands:
        case [Scalar(name=one) as found, Scalar(name=other)] if one == other:
            is_time = one in ("timestamp", "duration")
            return DYN if is_time else found
        case [Scalar() as found]:
            return found
    return DYN
