"""Values of an object and their types, in the form for CEL (pkg/cel/common).

The schema decides on the type: ``1`` can be a double, and a text with the format
date-time is a timestamp. Fields get the escaped names that expressions use.
"""

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_day
from controller_manager.cel import types
from controller_manager.cel.schemas import SCALARS
from controller_manager.devcluster.cel.library.standard import duration_of, timestamp_of
from controller_manager.devcluster.cel.values import EvaluationError

from .keywords import EMBEDDED, INT_OR_STRING, items_of, properties_of, schema_of_others

_FORMATS: Final[Mapping[str, types.Type]] = {
    "byte": types.BYTES,
    "date": types.TIMESTAMP,
    "date-time": types.TIMESTAMP,
    "duration": types.DURATION,
}
_TEXT: Final[JSON] = {"type": "string"}
_META: Final[JSON] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": {
        "type": "object",
        "properties": {"name": _TEXT, "generateName": _TEXT},
    },
}
"""The fields of each resource that rules may use."""


def fields_of(schema: JSON, *, is_resource: bool) -> JSON:
    """Return the schemas of the fields that rules may use."""
    known = properties_of(schema)
    return {**known, **_META} if is_resource or schema.get(EMBEDDED) else known


def declared_type(schema: JSON, *, is_resource: bool = False) -> types.Type:
    """Return the CEL type of the values that a schema describes."""
    if schema.get(INT_OR_STRING):
        return types.DYN
    match schema.get("type"):
        case "array" if (items := items_of(schema)) is not None:
            return types.ListOf(declared_type(items))
        case "object" if (others := schema_of_others(schema)) is not None:
            return types.MapOf(declared_type(others))
        case "object" if fields := fields_of(schema, is_resource=is_resource):
            return types.object_of(
                {
                    name: declared_type(each)
                    for found, each in fields.items()
                    if (name := types.escaped(found)) is not None
                }
            )
        case "string":
            return _FORMATS.get(schema.get("format", ""), types.STRING)
        case str(type_):
            return SCALARS.get(type_, types.DYN)
    return types.DYN


def rule_value(value: Any, schema: JSON, *, is_resource: bool = False) -> Any:
    """Return the CEL value of a JSON value; raises EvaluationError."""
    if schema.get(INT_OR_STRING) or value is None:
        return value
    match schema.get("type"), value:
        case "array", list():
            items = items_of(schema) or {}
            return [rule_value(each, items) for each in value]
        case "object", dict():
            return _object(value, schema, is_resource=is_resource)
        case "number", int() | float():
            return float(value)
        case "integer", float():
            return int(value)
        case "string", str():
            return _text(value, schema.get("format", ""))
    return value


def _object(value: JSON, schema: JSON, *, is_resource: bool) -> JSON:
    others = schema_of_others(schema)
    if others is not None:
        return {name: rule_value(each, others) for name, each in value.items()}
    fields = fields_of(schema, is_resource=is_resource)
    return {
        name: rule_value(value[found], each)
        for found, each in fields.items()
        if found in value and (name := types.escaped(found)) is not None
    }


def _midnight(text: str) -> datetime:
    """Return the time at which a day begins; raises ValueError for an invalid day."""
    day = parse_day(text)
    if day is None:
        msg = f"{text!r} is no day"
        raise ValueError(msg)
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _text(value: str, format_: str) -> Any:
    try:
        match format_:
            case "byte":
                return base64.b64decode(value)
            case "date":
                return _midnight(value)
            case "date-time":
                return timestamp_of(value)
            case "duration":
                return duration_of(value)
    except (binascii.Error, ValueError) as error:
        raise EvaluationError(str(error)) from None
    return value
