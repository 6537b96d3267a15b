"""Reads JSON as Go does: null is the zero value of a field, an element or a value.

Go writes null for a nil slice or map, and reads null for any type. msgspec reads it
only where a type says ``| None``. Servers of aggregated APIs may write null anywhere.
"""

from functools import cache
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Raw, inspect

DecodedT = TypeVar("DecodedT")

_ARRAYS: Final = (
    inspect.ListType,
    inspect.VarTupleType,
    inspect.SetType,
    inspect.FrozenSetType,
)

_ZEROS: Final[dict[type[inspect.Type], object]] = {
    inspect.IntType: 0,
    inspect.FloatType: 0.0,
    inspect.BoolType: False,
    inspect.StrType: "",
}
"""The zero values of scalars. In a union the first one is used: of a quantity, 0."""


class Decoder(Generic[DecodedT]):
    """Decodes JSON to a type; null is the zero value where the type has no null.

    A document of the right form costs one call. Any other is decoded again, without
    its nulls. A document that is null as a whole is refused.
    """

    def __init__(self, decoded: type[DecodedT]) -> None:
        self._type = decoded
        self.decode_exactly: Final = msgspec.json.Decoder(decoded).decode
        """Decodes a document that has null only where the type has it."""

    def decode(self, document: bytes | Raw) -> DecodedT:
        """Return the decoded document; raises msgspec.DecodeError."""
        try:
            return self.decode_exactly(document)
        except msgspec.ValidationError:
            value = msgspec.json.decode(document)
            if value is None:
                raise
            filled = without_nulls(value, self._type)
            return self.decode_exactly(msgspec.json.encode(filled))


def without_nulls(value: object, decoded: object) -> object:
    """Return decoded JSON with zero values for the nulls that a type does not have."""
    return _filled(value, _type_info(decoded))


@cache
def _type_info(decoded: object) -> inspect.Type:
    return inspect.type_info(decoded)


def _filled(value: object, wanted: inspect.Type) -> object:
    wanted = _member(value, wanted)
    if value is None:
        return _zero(wanted)
    if isinstance(wanted, inspect.StructType) and isinstance(value, dict):
        return _filled_fields(value, wanted)
    if isinstance(wanted, inspect.DictType) and isinstance(value, dict):
        return {key: _filled(each, wanted.value_type) for key, each in value.items()}
    if isinstance(wanted, _ARRAYS) and isinstance(value, list):
        return [_filled(each, wanted.item_type) for each in value]
    return value


def _filled_fields(
    value: dict[str, object], wanted: inspect.StructType
) -> dict[str, object]:
    """Return the fields of an object; null leaves the default of a field."""
    filled = dict(value)
    for each in wanted.fields:
        name = each.encode_name
        if name in value:
            found = _filled(value[name], each.type)
            if value[name] is None and found is not None and not each.required:
                del filled[name]
            else:
                filled[name] = found
    return filled


def _member(value: object, wanted: inspect.Type) -> inspect.Type:
    """Return the member of a union that a value has the form of, else the first one."""
    if not isinstance(wanted, inspect.UnionType):
        return wanted
    if value is None:
        kinds = [inspect.NoneType, *_ZEROS]
        by_kind = {type(each): each for each in wanted.types}
        return next((by_kind[each] for each in kinds if each in by_kind), wanted)
    return next((each for each in wanted.types if _fits(value, each)), wanted)


def _fits(value: object, wanted: inspect.Type) -> bool:
    if isinstance(wanted, inspect.StructType):
        return isinstance(value, dict) and (
            wanted.tag is None or value.get(wanted.tag_field) == wanted.tag
        )
    if isinstance(wanted, inspect.DictType):
        return isinstance(value, dict)
    return isinstance(wanted, _ARRAYS) and isinstance(value, list)


def _zero(wanted: inspect.Type) -> object:
    """Return Go's zero value of a type as JSON; `None` for a type that has null."""
    if isinstance(wanted, inspect.DictType):
        return {}
    if isinstance(wanted, inspect.StructType):
        required = (each for each in wanted.fields if each.required)
        return {each.encode_name: _zero(each.type) for each in required}
    if isinstance(wanted, _ARRAYS):
        return []
    return _ZEROS.get(type(wanted))
