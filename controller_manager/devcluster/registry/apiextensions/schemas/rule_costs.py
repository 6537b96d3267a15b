"""The greatest sizes of the values that a schema describes (SchemaDeclType).

Where the schema has no limit, the values are as large as a request can be.
"""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.cel.types import Optional, escaped
from controller_manager.devcluster.cel.estimates import Bounds, estimated_cost
from controller_manager.devcluster.scheme.statuses import Cause, forbidden_field

from .keywords import INT_OR_STRING, RULES, child, items_of, key, properties_of
from .rules import declared_type, fields_of, program_of

# The greatest sizes of the values that a schema describes (SchemaDeclType).

MOST_BYTES: Final = 3 << 20
"""The size of the largest request (MaxRequestSizeBytes)."""

_INSIDE: Final = MOST_BYTES - 2
"""The size of the largest value without its quotes or brackets."""

_BYTES_OF_CHARACTER: Final = 4
_TIMES: Final = {
    "date": Bounds(12, 12),
    "date-time": Bounds(32, 21),
    "duration": Bounds(32, 3),
}
_SCALARS: Final = {
    "boolean": Bounds(0, 4),
    "integer": Bounds(0, 1),
    "number": Bounds(0, 1),
}


def bounds_of(schema: JSON, *, is_resource: bool = False) -> Bounds | None:
    """Return the greatest sizes of a value, `None` if rules cannot use it."""
    if schema.get(INT_OR_STRING):
        return Bounds(_characters(schema, _INSIDE), 1)
    match schema.get("type"):
        case "array":
            item = bounds_of(items_of(schema) or {})
            if item is None:
                return None
            return Bounds(_limit(schema, "maxItems", item.least_bytes + 1), 2, item)
        case "object":
            others = schema.get("additionalProperties")
            if isinstance(others, dict):
                return _map_bounds(schema, others)
            return _object_bounds(schema, is_resource=is_resource)
        case "string":
            return _text_bounds(schema)
        case str(type_):
            return _SCALARS.get(type_)
    return None


def most_entries(schema: JSON) -> int | None:
    """Return how often each part of a value can be in it, `None` without a limit."""
    match schema.get("type"):
        case "object" if schema.get("additionalProperties") is not None:
            name = "maxProperties"
        case "array":
            name = "maxItems"
        case _:
            return 1
    return max(0, schema[name]) if name in schema else None


def _limit(schema: JSON, name: str, least_bytes: int) -> int:
    """Return the limit of the schema, or how many entries a request can have."""
    if name in schema:
        return max(0, int(schema[name]))
    return _INSIDE // least_bytes


def _map_bounds(schema: JSON, others: JSON) -> Bounds | None:
    item = bounds_of(others)
    if item is None:
        return None
    most = _limit(schema, "maxProperties", item.least_bytes + 6)
    return Bounds(most, 2, item, is_map=True)


def _object_bounds(schema: JSON, *, is_resource: bool) -> Bounds:
    fields: dict[str, Bounds] = {}
    least_bytes = 2
    for name, each in fields_of(schema, is_resource=is_resource).items():
        found = bounds_of(each)
        if found is None:
            continue
        if (known := escaped(name)) is not None:
            fields[known] = found
        if name in (schema.get("required") or ()) and each.get("default") is None:
            least_bytes += len(name.encode()) + found.least_bytes + 4
    return Bounds(0, least_bytes, fields=fields)


def _text_bounds(schema: JSON) -> Bounds:
    format_ = schema.get("format", "")
    if format_ in _TIMES:
        return _TIMES[format_]
    if format_ == "byte":
        return Bounds(max(0, schema.get("maxLength", _INSIDE)), 2)
    values: list[Any] = schema.get("enum") or []
    lengths = [len(each.encode()) for each in values if isinstance(each, str)]
    return Bounds(_characters(schema, max(lengths, default=_INSIDE)), 2)


def _characters(schema: JSON, otherwise: int) -> int:
    if "maxLength" not in schema:
        return otherwise
    return max(0, int(schema["maxLength"])) * _BYTES_OF_CHARACTER


# The limits on the estimated costs of the rules of a definition
# (cel_validation.go).

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
