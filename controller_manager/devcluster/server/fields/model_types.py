"""The types of built-in kinds, from their models."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Final

from controller_manager.devcluster.server.fields.field_type import (
    DEDUCED,
    FieldType,
    ListType,
    MapType,
    Scalar,
)
from controller_manager.devcluster.server.fields.merge_rules import (
    ALWAYS_THERE,
    ALWAYS_THERE_ANYWHERE,
    ATOMIC,
    ATOMIC_MAPS,
    DEFAULT_KEYS,
    GRANULAR,
    LIST_KEYS,
)
from controller_manager.devcluster.server.schema import (
    Field,
    Type,
    fields_of,
    is_text,
)

_SCALARS: Final[Mapping[str, Scalar]] = {
    "bool": "boolean",
    "datetime": "untyped",
    "float": "numeric",
    "int": "numeric",
    "str": "string",
}


@cache
def type_of_model(model: str, *, is_atomic: bool | None = None) -> FieldType:
    """Return the type of a model, DEDUCED if it is not known.

    `is_atomic` makes a field atomic whose model is not.
    """
    fields = fields_of(model)
    if fields is None:
        return DEDUCED
    always = ALWAYS_THERE_ANYWHERE & fields.keys() | ALWAYS_THERE.get(
        model, frozenset()
    )
    structs = frozenset(
        name for name in always if fields[name].type.shape in ("object", "list")
    )
    atomic = model in ATOMIC if is_atomic is None else is_atomic
    map_ = MapType(partial(_fields, model), always=structs, is_atomic=atomic)
    return FieldType(map_=map_)


def _fields(model: str) -> Mapping[str, FieldType]:
    found = fields_of(model) or {}
    return {name: _type_of_field(field, model) for name, field in found.items()}


def _type_of_field(field: Field, model: str) -> FieldType:
    if (model, field.name) in GRANULAR:
        return type_of_model(field.type.name, is_atomic=False)
    texts = _SCALARS["str"] if is_text(model, field.name) else "untyped"
    if field.type.shape == "list":
        keys = LIST_KEYS.get(model, {}).get(field.name)
        return _type_of_list(field.type, keys, _SCALARS["str"])
    is_atomic = (model, field.name) in ATOMIC_MAPS
    return _type_of(field.type, texts, is_atomic=is_atomic)


def _type_of_list(
    type_: Type, keys: tuple[str, ...] | None, texts: Scalar
) -> FieldType:
    assert type_.element is not None  # noqa: S101 - lists have one
    items = _type_of(type_.element, texts)
    defaults = DEFAULT_KEYS.get(type_.element.name, {})
    list_ = ListType(items, keys or (), defaults, is_atomic=keys is None)
    return FieldType(list_=list_)


def _type_of(type_: Type, texts: Scalar, *, is_atomic: bool = False) -> FieldType:
    """Return the type of a value; `texts` is that of the texts in it."""
    match type_.shape:
        case "scalar":
            return FieldType(texts if type_.name == "str" else _SCALARS[type_.name])
        case "object":
            return type_of_model(type_.name)
        case "list":
            return _type_of_list(type_, None, texts)
        case "map":
            assert type_.element is not None  # noqa: S101 - maps have one
            others = _type_of(type_.element, texts)
            return FieldType(map_=MapType(others=others, is_atomic=is_atomic))
    return DEDUCED
