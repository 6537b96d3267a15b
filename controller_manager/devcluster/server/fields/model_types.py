"""The types of built-in kinds, from their models (kube-openapi/pkg/schemaconv)."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Final

from controller_manager.devcluster.scheme.models import Field, Type, built_in

from .field_type import DEDUCED, UNTYPED, FieldType, ListType, MapType

_SCALARS: Final[Mapping[str, FieldType]] = {
    "boolean": FieldType("boolean"),
    "integer": FieldType("numeric"),
    "number": FieldType("numeric"),
    "string": FieldType("string"),
}
_TEXTS: Final = ("", "byte")
"""The formats of texts; a text of another format, such as a time, is not checked."""


@cache
def type_of_model(name: str, *, map_type: str = "") -> FieldType:
    """Return the type of a model; `map_type` is that of a field that refers to it."""
    model = built_in().model(name)
    if model.type not in ("", "object", "array"):
        return _scalar(model.type, model.format)
    if not model.fields:
        return DEDUCED
    is_atomic = (map_type or model.map_type) == "atomic"
    always = frozenset(
        field_name for field_name, field in model.fields.items() if _is_always(field)
    )
    return FieldType(
        map_=MapType(partial(_fields, name), always=always, is_atomic=is_atomic)
    )


def _is_always(field: Field) -> bool:
    """Tell whether Go writes a field also when it is empty: a struct, or a list."""
    if field.pointer or field.omitzero:
        return False
    if field.ref:
        return bool(built_in().model(field.ref).fields)
    return field.items is not None and not field.omitempty


def _fields(name: str) -> Mapping[str, FieldType]:
    fields = built_in().model(name).fields
    return {each: _type_of_field(field) for each, field in fields.items()}


def _type_of_field(field: Field) -> FieldType:
    if field.ref:
        return type_of_model(field.ref, map_type=field.map_type)
    if field.items is not None:
        items, keys = _type_of(field.items), field.list_map_keys
        is_atomic = field.list_type not in ("map", "set")
        defaults = _defaults_of_keys(field.items.ref, keys)
        return FieldType(list_=ListType(items, keys, defaults, is_atomic=is_atomic))
    return _type_of(field, is_atomic=field.map_type == "atomic")


def _defaults_of_keys(items: str, keys: tuple[str, ...]) -> Mapping[str, str]:
    """Return the defaults of key fields that items may lack, such as a protocol."""
    fields = built_in().model(items).fields if items and keys else {}
    return {name: fields[name].default for name in keys if fields[name].default}


def _type_of(type_: Type, *, is_atomic: bool = False) -> FieldType:
    if type_.ref:
        return type_of_model(type_.ref)
    if type_.items is not None:
        return FieldType(list_=ListType(_type_of(type_.items), is_atomic=True))
    if type_.values is not None:
        others = _type_of(type_.values)
        return FieldType(map_=MapType(others=others, is_atomic=is_atomic))
    return _scalar(type_.type, type_.format)


def _scalar(type_: str, format_: str) -> FieldType:
    if type_ == "string" and format_ not in _TEXTS:
        return UNTYPED
    return _SCALARS[type_]
