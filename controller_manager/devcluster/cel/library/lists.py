"""Functions on lists (pkg/cel/library of the API server) and sets (ext/sets.go)."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import pairwise
from typing import Final

from controller_manager.devcluster.cel.values import (
    EvaluationError,
    Value,
    add,
    are_equal,
    compare,
    contains,
)

from .checks import expect
from .strings import first_index, last_index


def _is_sorted(values: Value) -> bool:
    items = expect(values, list)
    return all(compare(one, other) <= 0 for one, other in pairwise(items))


def _sum(values: Value) -> Value:
    items = expect(values, list)
    if not items:
        return 0
    total: Value = timedelta() if isinstance(items[0], timedelta) else type(items[0])(0)
    for each in items:
        total = add(total, each)
    return total


def _extreme(name: str, sign: int) -> Callable[[Value], Value]:
    def function(values: Value) -> Value:
        items = expect(values, list)
        if not items:
            msg = f"{name} called on empty list"
            raise EvaluationError(msg)
        best = items[0]
        for each in items[1:]:
            if compare(each, best) * sign > 0:
                best = each
        return best

    return function


def _index_of(value: Value, item: Value, *start: Value) -> int:
    if not isinstance(value, list):
        return first_index(value, item, *start)
    found = (number for number, each in enumerate(value) if are_equal(each, item))
    return next(found, -1)


def _last_index_of(value: Value, item: Value, *start: Value) -> int:
    if not isinstance(value, list):
        return last_index(value, item, *start)
    return max(
        (number for number, each in enumerate(value) if are_equal(each, item)),
        default=-1,
    )


# Sets


def _has_all(one: Value, other: Value) -> bool:
    return all(contains(expect(one, list), each) for each in expect(other, list))


def _intersects(one: Value, other: Value) -> bool:
    return any(contains(expect(one, list), each) for each in expect(other, list))


GLOBALS: Final[Mapping[str, Callable[..., Value]]] = {
    "sets.contains": _has_all,
    "sets.equivalent": lambda one, other: _has_all(one, other) and _has_all(other, one),
    "sets.intersects": _intersects,
}
METHODS: Final[Mapping[str, Callable[..., Value]]] = {
    "indexOf": _index_of,
    "isSorted": _is_sorted,
    "lastIndexOf": _last_index_of,
    "max": _extreme("max", 1),
    "min": _extreme("min", -1),
    "sum": _sum,
}
