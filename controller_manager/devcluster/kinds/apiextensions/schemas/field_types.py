"""Field types for merging, made from a schema (kube-openapi/pkg/schemaconv)."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.models import OBJECT_META
from controller_manager.devcluster.server.fields.field_type import (
    DEDUCED,
    UNTYPED,
    FieldType,
    ListType,
    MapType,
    Scalar,
    type_of_model,
)

from .keywords import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVES,
    items_of,
    properties_of,
    schema_of_others,
)

_TEXT: Final = FieldType("string")
_SCALARS: Final[Mapping[str, Scalar]] = {
    "boolean": "boolean",
    "integer": "numeric",
    "number": "numeric",
    "string": "string",
}


def type_of_resource(schema: JSON) -> FieldType:
    """Return the type of the objects that a valid schema describes.

    Without a schema, the objects may have any fields.
    """
    return FieldType(map_=_map(schema, is_resource=True)) if schema else DEDUCED


def _type_of(schema: JSON) -> FieldType:
    if schema.get(INT_OR_STRING):
        return UNTYPED
    match schema.get("type"):
        case "object":
            is_resource = bool(schema.get(EMBEDDED))
            return FieldType(map_=_map(schema, is_resource=is_resource))
        case "array":
            return FieldType(list_=_list(schema))
        case str() as name:
            return FieldType(_SCALARS[name])
    return DEDUCED


def _map(schema: JSON, *, is_resource: bool) -> MapType:
    others = schema_of_others(schema)
    inner = _type_of(others) if others is not None else None
    # An object without a schema may have any fields.
    is_free = not properties_of(schema) and "additionalProperties" not in schema
    if inner is None and (schema.get(PRESERVES) or (is_free and not is_resource)):
        inner = DEDUCED
    load = partial(_fields, schema, is_resource=is_resource)
    return MapType(load, inner, is_atomic=schema.get(MAP_TYPE) == "atomic")


def _fields(schema: JSON, *, is_resource: bool) -> Mapping[str, FieldType]:
    found = {name: _type_of(each) for name, each in properties_of(schema).items()}
    if not is_resource:
        return found
    meta = {"kind": _TEXT, "apiVersion": _TEXT}
    return {**found, **meta, "metadata": type_of_model(OBJECT_META)}


def _list(schema: JSON) -> ListType:
    items = items_of(schema) or {}
    type_ = _type_of(items)
    match schema.get(LIST_TYPE):
        case "set":
            return ListType(type_)
        case "map":
            keys = tuple(schema.get(LIST_KEYS) or ())
            fields = properties_of(items)
            defaults = {
                name: fields[name]["default"]
                for name in keys
                if "default" in fields.get(name, {})
            }
            return ListType(type_, keys, defaults)
    return ListType(type_, is_atomic=True)
