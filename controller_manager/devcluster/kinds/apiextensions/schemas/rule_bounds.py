"""The greatest sizes of the values that a schema describes (SchemaDeclType).

Where the schema has no limit, the values are as large as a request can be.
"""

from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.cel.types import escaped
from controller_manager.devcluster.cel.estimates import Bounds

from .keywords import INT_OR_STRING, items_of
from .rule_values import fields_of

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
