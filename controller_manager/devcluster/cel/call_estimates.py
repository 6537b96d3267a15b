"""The estimated costs of functions (pkg/cel/library/cost.go and checker/cost.go).

A function that is not here costs one unit, and its result is small: so no expression is
refused that the API server accepts.
"""

from collections.abc import Callable, Sequence
from math import ceil
from typing import Final

from controller_manager.control.cel.types import (
    BOOL,
    BYTES,
    DYN,
    INT,
    STRING,
    ListOf,
    Type,
)

from .sizes import ITEMS, ONE, UNKNOWN, Bounds, Estimate, Size, is_single, size_at

PER_CHARACTER: Final = 0.1
_PER_CHARACTER_OF_PATTERN: Final = 0.25
_ADDRESS: Final = Size(4, 16)
_SMALL: Final = Size(0, 1)

Parts = Sequence[Estimate]
Estimator = Callable[[Bounds, Parts], Estimate]
"""Estimates a call alone: without the costs of its target and its arguments."""


def is_text(type_: Type) -> bool:
    """Tell whether a type is that of a text or of bytes."""
    return type_ in (STRING, BYTES)


def _argument(_root: Bounds, parts: Parts) -> Estimate:
    return Estimate(parts[1].size.cost(PER_CHARACTER), BOOL, (), ONE)


def _contains(_root: Bounds, parts: Parts) -> Estimate:
    one, other = (each.size.cost(PER_CHARACTER) for each in parts)
    return Estimate(one * other, BOOL, (), ONE)


def _pattern_cost(parts: Parts) -> int:
    text = parts[0].size.plus(ONE).cost(PER_CHARACTER)
    return text * parts[1].size.cost(_PER_CHARACTER_OF_PATTERN)


def _matches(_root: Bounds, parts: Parts) -> Estimate:
    return Estimate(_pattern_cost(parts), BOOL, (), ONE)


def _find(type_: Type) -> Estimator:
    def estimator(_root: Bounds, parts: Parts) -> Estimate:
        size = Size(0, parts[0].size.most)
        return Estimate(_pattern_cost(parts), type_, (), size)

    return estimator


def _same_text(_root: Bounds, parts: Parts) -> Estimate:
    size = parts[0].size
    return Estimate(size.cost(PER_CHARACTER), STRING, (), size)


def _format(_root: Bounds, parts: Parts) -> Estimate:
    return Estimate(parts[0].size.cost(PER_CHARACTER), STRING, (), _SMALL)


def _item_size(root: Bounds, parts: Parts) -> Size:
    path = parts[0].path
    return (size_at(root, (*path, ITEMS)) if path else None) or UNKNOWN


def _traverse(root: Bounds, parts: Parts) -> Estimate:
    target = parts[0]
    if not isinstance(target.type, ListOf):
        return Estimate(target.size.cost(PER_CHARACTER), DYN, (), ONE)
    item = 1
    if is_text(target.type.item):
        item += _item_size(root, parts).cost(PER_CHARACTER)
    return Estimate(target.size.most * item, DYN, (), _SMALL)


def _replace(_root: Bounds, parts: Parts) -> Estimate:
    size, old, new, *_ = (each.size for each in parts)
    count = kept = 0
    if old.least == 0:
        count, kept = size.most + 1, size.most
    elif new.most <= old.least:
        kept = size.most
    else:
        count = ceil(float(size.most) / float(old.least))
    longest = Size(0, count).times(new).plus(Size(0, kept))
    return Estimate(size.cost(2 * PER_CHARACTER), STRING, (), longest)


def _split(_root: Bounds, parts: Parts) -> Estimate:
    size = parts[0].size
    cost = size.cost(2 * PER_CHARACTER)
    return Estimate(cost, ListOf(STRING), (), Size(0, size.most))


def _join(root: Bounds, parts: Parts) -> Estimate:
    count = parts[0].size
    size = count.times(_item_size(root, parts))
    if len(parts) > 1:
        separators = Size(max(0, count.least - 1), max(0, count.most - 1))
        size = size.plus(parts[1].size.times(separators))
    return Estimate(size.cost(PER_CHARACTER), STRING, (), size)


def _contains_address(more: int) -> Estimator:
    def estimator(_root: Bounds, parts: Parts) -> Estimate:
        cost = _ADDRESS.plus(_ADDRESS).cost(PER_CHARACTER) + more
        if parts[1].type == STRING:
            cost += parts[1].size.cost(PER_CHARACTER)
        return Estimate(cost, BOOL, (), ONE)

    return estimator


_METHODS: Final[dict[tuple[str, int], Estimator]] = {
    ("contains", 1): _contains,
    ("containsCIDR", 1): _contains_address(_ADDRESS.cost(PER_CHARACTER) + 1),
    ("containsIP", 1): _contains_address(0),
    ("endsWith", 1): _argument,
    ("find", 1): _find(STRING),
    ("findAll", 1): _find(ListOf(STRING)),
    ("findAll", 2): _find(ListOf(STRING)),
    ("format", 1): _format,
    ("indexOf", 1): _traverse,
    ("indexOf", 2): _traverse,
    ("isSorted", 0): _traverse,
    ("join", 0): _join,
    ("join", 1): _join,
    ("lastIndexOf", 1): _traverse,
    ("lastIndexOf", 2): _traverse,
    ("lowerAscii", 0): _same_text,
    ("matches", 1): _matches,
    ("max", 0): _traverse,
    ("min", 0): _traverse,
    ("replace", 2): _replace,
    ("replace", 3): _replace,
    ("split", 1): _split,
    ("split", 2): _split,
    ("startsWith", 1): _argument,
    ("substring", 1): _same_text,
    ("substring", 2): _same_text,
    ("sum", 0): _traverse,
    ("trim", 0): _same_text,
    ("upperAscii", 0): _same_text,
}
"""The methods whose cost depends on sizes, by the number of their arguments."""


def _converted(function: str, argument: Estimate) -> Estimate:
    """Estimate the global functions whose cost or result depends on the argument."""
    size, cost = argument.size, argument.size.cost(PER_CHARACTER)
    match function:
        case "url":
            return Estimate(cost, DYN, (), _SMALL)
        case "bytes" if argument.type in (STRING, DYN):
            return Estimate(max(1, cost), BYTES, (), Size(size.least, size.most * 4))
        case "string" if argument.type in (BYTES, DYN):
            return Estimate(max(1, cost), STRING, (), Size(size.least // 4, size.most))
        case "string":
            return Estimate(1, STRING)
        case "dyn":
            return Estimate(1, DYN, (), argument.known_size, argument.item)
        case "size" | "int":
            return Estimate(1, INT, (), ONE)
    return Estimate(1, DYN, (), _SMALL)


def estimate_call(
    root: Bounds, function: str, target: Estimate | None, arguments: Parts
) -> Estimate:
    """Return the estimate of a call with the costs of its parts.

    `target` is absent for functions that are not methods.
    """
    parts = [*([target] if target is not None else []), *arguments]
    found = Estimate(1, DYN, (), _SMALL)
    if target is not None and function == "size":
        found = Estimate(1, INT, (), ONE)
    elif target is not None:
        estimator = _METHODS.get((function, len(arguments)))
        found = estimator(root, parts) if estimator is not None else found
    elif len(arguments) == 1:
        found = _converted(function, arguments[0])
    if is_single(found.type):
        found = Estimate(found.cost, found.type, (), ONE)
    return found.costing(found.cost + sum(each.cost for each in parts))
