"""The limits on the estimated costs of the rules of a definition (cel_validation.go).

A rule costs as much as its expression, as often as its part can be in an object.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.cel.types import Optional
from controller_manager.devcluster.cel.estimates import estimated_cost
from controller_manager.devcluster.scheme.statuses import Cause, forbidden_field

from .keywords import RULES, child, items_of, key, properties_of
from .rule_bounds import MOST_BYTES, bounds_of, most_entries
from .rule_values import declared_type
from .rules import program_of

_MOST_OF_RULE: Final = 10_000_000
_MOST: Final = 100_000_000
_SHOWN: Final = 4
_MANY_TIMES: Final = 100
_FEW_TIMES: Final = 1.5
_CONTRIBUTED: Final = (
    "contributed to estimated rule cost total exceeding cost limit for entire "
    "OpenAPIv3 schema"
)
_TOTAL: Final = (
    "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
)
_ADVICE: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where "
    "arrays, maps, and strings are declared)"
)


class _Cost(Struct, frozen=True):
    """The estimated cost of an expression, which `what` names in messages."""

    path: str
    what: str
    cost: int


def validate_costs(schema: JSON, path: str) -> Iterator[Cause]:
    """Yield the errors for the rules of a valid schema that cost too much."""
    costs = [*_costs(schema, path, 1, is_root=True)]
    for each in costs:
        if each.cost > _MOST_OF_RULE:
            detail = _exceeded(f"estimated {each.what} cost", each.cost, _MOST_OF_RULE)
            yield forbidden_field(each.path, detail)
    total = sum(each.cost for each in costs)
    if total <= _MOST:
        return
    large = [each for each in costs if each.cost >= _MOST // 100]
    for each in sorted(large, key=lambda each: -each.cost)[:_SHOWN]:
        yield forbidden_field(each.path, _CONTRIBUTED)
    yield forbidden_field(path, _exceeded(_TOTAL, total, _MOST))


def _exceeded(what: str, cost: int, most: int) -> str:
    factor = cost / most
    if factor > _MANY_TIMES:
        times = "more than 100x"
    else:
        times = f"{factor:f}x" if factor < _FEW_TIMES else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {times} {_ADVICE}"


def _costs(
    schema: JSON, path: str, times: int | None, *, is_root: bool = False
) -> Iterator[_Cost]:
    """Yield the costs of all rules; their part can be so many times in an object.

    It can be there without a limit if `times` is `None`.
    """
    entries = most_entries(schema)
    inner = None if times is None or entries is None else times * entries
    others, items = schema.get("additionalProperties"), items_of(schema)
    if isinstance(others, dict):
        yield from _costs(others, child(path, "additionalProperties"), inner)
    for name, each in properties_of(schema).items():
        yield from _costs(each, key(child(path, "properties"), name), inner)
    if items is not None:
        yield from _costs(items, child(path, "items"), inner)
    yield from _own_costs(schema, path, times, is_root=is_root)


def _own_costs(
    schema: JSON, path: str, times: int | None, *, is_root: bool
) -> Iterator[_Cost]:
    rules = schema.get(RULES) or ()
    bounds = bounds_of(schema, is_resource=is_root) if rules else None
    if bounds is None:
        return
    own = declared_type(schema, is_resource=is_root)
    if times is None:
        times = MOST_BYTES // (bounds.least_bytes + 1)
    for number, rule in enumerate(rules):
        old = Optional(own) if rule.get("optionalOldSelf") else own
        types = {"self": own, "oldSelf": old}
        for name, what, count in (
            ("rule", "rule", times),
            ("messageExpression", "messageExpression", 1),
        ):
            if text := rule.get(name):
                cost = estimated_cost(program_of(text), types, bounds) * count
                where = child(key(child(path, RULES), str(number)), name)
                yield _Cost(where, what, cost)
