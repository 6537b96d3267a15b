"""JSON that no type validates: read in place, decoded as Go does, or kept as bytes.

A complete object that the cache holds may have fields that are newer than this program.
Such an object keeps its spec and its status as bytes, so a PUT sends back every field
that came. It is read through a view, which decodes the fields that controllers know,
and changed through `with_fields`.

Go writes null for a nil slice or map, and reads null for any type, as its zero value.
msgspec reads it only where a type says ``| None``. Servers of aggregated APIs may write
null anywhere.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw, inspect

JSON = dict[str, Any]


def object_at(holder: JSON, name: str) -> JSON:
    """Return the object in a field, an empty one if there is no object."""
    found = holder.get(name)
    return found if isinstance(found, dict) else {}


def objects_at(holder: JSON, name: str) -> Iterator[JSON]:
    """Yield the objects of the list in a field."""
    found = holder.get(name)
    for each in found if isinstance(found, list) else ():
        if isinstance(each, dict):
            yield each


_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_ENCODER: Final = msgspec.json.Encoder()


def with_fields(raw: Raw, changes: Mapping[str, Any]) -> Raw:
    """Return the bytes of a JSON object with some of its fields changed.

    The keys of `changes` are the names of the JSON form; `None` removes a field. All
    other fields stay as they are, and in their order.
    """
    fields: dict[str, Any] = _FIELDS.decode(raw)
    for name, value in changes.items():
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = value
    return Raw(_ENCODER.encode(fields))


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
