"""The structural schema of a class, made from its annotations.

msgspec's own JSON schema has references and unions, which a definition may not have.
Upstream: structural schemas of apiextensions-apiserver, pkg/apiserver/schema.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import inspect

from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Condition

_OF_THE_SERVER: Final = ("apiVersion", "kind", "metadata")
"""Fields of each object whose schema the API server knows."""

_ANYTHING: Final = "x-kubernetes-preserve-unknown-fields"

_LIMITS: Final = {
    "ge": "minimum",
    "gt": "minimum",
    "le": "maximum",
    "lt": "maximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}

_SCALARS: Final[dict[type[inspect.Type], JSON]] = {
    inspect.AnyType: {_ANYTHING: True},
    inspect.BoolType: {"type": "boolean"},
    inspect.BytesType: {"type": "string", "format": "byte"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
    inspect.FloatType: {"type": "number"},
    inspect.IntType: {"type": "integer"},
    inspect.RawType: {_ANYTHING: True},
    inspect.StrType: {"type": "string"},
}

_NAMES: Final = {bool: "boolean", float: "number", int: "integer", str: "string"}


class DefinitionError(ValueError):
    """A declaration has no manifest; the message says in one line how to mend it."""


def schema_of(cls: type) -> JSON:
    """Return the schema of the objects of a class, without their metadata.

    Raises DefinitionError, which names the class and the field.
    """
    try:
        info = inspect.type_info(cls)
    except (NameError, TypeError) as error:
        msg = f"{cls.__name__}: {error}; repair the annotation"
        raise DefinitionError(msg) from error
    assert isinstance(info, inspect.StructType)  # noqa: S101 - objects are structs
    schema = _struct(info, cls.__name__, ())
    for name in _OF_THE_SERVER:
        schema["properties"].pop(name, None)
    return schema


def with_defaults(value: Any, schema: JSON) -> Any:  # noqa: ANN401 - any JSON
    """Return JSON with the defaults of a schema for the fields that are absent."""
    if isinstance(value, list):
        return [with_defaults(each, schema.get("items", {})) for each in value]
    if not isinstance(value, dict):
        return value
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    filled = {
        name: with_defaults(each, fields.get(name, others or {}))
        for name, each in value.items()
    }
    missing = fields.keys() - filled.keys()
    return filled | {
        name: fields[name]["default"] for name in missing if "default" in fields[name]
    }


def _schema(info: inspect.Type, where: str, above: tuple[type, ...]) -> JSON:
    """Return the schema of a type; `above` are the classes that it is inside of."""
    match info:
        case inspect.Metadata():
            more = dict(info.extra_json_schema or {})
            more.pop("examples", None)  # OpenAPI has none
            return _schema(info.type, where, above) | more
        case inspect.UnionType():
            return _union(info, where, above)
        case inspect.StructType():
            return _struct(info, where, above)
        case inspect.LiteralType():
            return _enum(info.values, where)
        case inspect.EnumType():
            return _enum([each.value for each in info.cls], where)
        case inspect.DictType():
            values = _schema(info.value_type, where, above)
            schema = {"type": "object", "additionalProperties": values}
            return schema | _lengths(info, "Properties")
        case inspect.CollectionType() | inspect.VarTupleType():
            return _array(info, where, above)
    if type(info) not in _SCALARS:
        name = getattr(getattr(info, "cls", info), "__name__", type(info).__name__)
        msg = f"{where}: a schema has no {name}; use a Struct, a plain type, or Any"
        raise DefinitionError(msg)
    return _SCALARS[type(info)] | _limits(info) | _lengths(info, "Length")


def _limits(info: inspect.Type) -> JSON:
    """Return the constraints of a number or text."""
    given = {each: getattr(info, each, None) for each in _LIMITS}
    schema = {
        _LIMITS[each]: limit for each, limit in given.items() if limit is not None
    }
    exclusive = {"gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
    more = {key: True for each, key in exclusive.items() if given[each] is not None}
    return schema | more


def _lengths(info: inspect.Type, of: str) -> JSON:
    """Return the constraints of a length: of characters, items or keys."""
    given = {each: getattr(info, f"{each}_length", None) for each in ("min", "max")}
    return {f"{each}{of}": limit for each, limit in given.items() if limit is not None}


def _union(info: inspect.UnionType, where: str, above: tuple[type, ...]) -> JSON:
    """Return the schema of ``T | None`` or ``int | str``: there are no other unions."""
    types = [each for each in info.types if not isinstance(each, inspect.NoneType)]
    if len(types) == 1:
        schema = _schema(types[0], where, above)
    elif {type(each) for each in types} == {inspect.IntType, inspect.StrType}:
        schema = {"x-kubernetes-int-or-string": True}
        for each in types:
            schema |= _limits(each) | _lengths(each, "Length")
    else:
        msg = f"{where}: a schema has unions with None, and int | str; use Any"
        raise DefinitionError(msg)
    if info.includes_none:
        schema |= {"nullable": True}
        if "enum" in schema:
            schema["enum"].append(None)
    return schema


def _enum(values: Sequence[Any], where: str) -> JSON:
    kinds = {type(each) for each in values}
    if len(kinds) != 1 or not kinds <= _NAMES.keys():
        msg = f"{where}: the values are not all texts, or all numbers; use one type"
        raise DefinitionError(msg)
    return {"type": _NAMES[kinds.pop()], "enum": list(values)}


def _array(
    info: inspect.CollectionType | inspect.VarTupleType,
    where: str,
    above: tuple[type, ...],
) -> JSON:
    schema: JSON = {"type": "array", "items": _schema(info.item_type, where, above)}
    schema |= _lengths(info, "Items")
    if isinstance(info, inspect.SetType | inspect.FrozenSetType):
        schema["x-kubernetes-list-type"] = "set"
    elif isinstance(info.item_type, inspect.StructType) and (
        info.item_type.cls is Condition
    ):
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = ["type"]
    return schema


def _struct(info: inspect.StructType, where: str, above: tuple[type, ...]) -> JSON:
    """Return the schema of a Struct; only fields without a default are required."""
    cls = info.cls
    if cls in above:
        msg = f"{where}: {cls.__name__} is inside of itself; use Any for the inner one"
        raise DefinitionError(msg)
    if info.array_like or info.tag is not None:
        msg = f"{where}: {cls.__name__} is array_like or has a tag; make it plain"
        raise DefinitionError(msg)
    schema: JSON = {"type": "object"}
    if cls.__doc__:
        schema["description"] = " ".join(cls.__doc__.strip().split("\n\n")[0].split())
    required = [each.encode_name for each in info.fields if each.required]
    if cls is Condition:  # all types have defaults, because servers omit what is empty
        required = ["type", "status"]
    if required:
        schema["required"] = required
    schema["properties"] = {
        each.encode_name: _field(each, f"{cls.__name__}.{each.name}", (*above, cls))
        for each in info.fields
    }
    if cls is Condition:
        schema["properties"]["lastTransitionTime"]["format"] = "date-time"
    return schema


def _field(field: inspect.Field, where: str, above: tuple[type, ...]) -> JSON:
    """Return the schema of a field.

    A default that is not empty becomes that of the schema. ``T | None = None`` is a
    field that may be left out; with another default, or none, null is a value.
    """
    schema = _schema(field.type, where, above)
    default = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    if default is None:
        if schema.pop("nullable", False) and "enum" in schema:
            schema["enum"].remove(None)
    elif default is not msgspec.NODEFAULT:
        written = msgspec.json.decode(msgspec.json.encode(default))
        if written:
            schema["default"] = written
    return schema
