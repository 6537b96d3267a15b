"""Reading decoded JSON that is not validated, and changing JSON that is kept as bytes.

A complete object that the cache holds may have fields that are newer than this program.
Such an object keeps its spec and its status as bytes, so a PUT sends back every field
that came. It is read through a view, which decodes the fields that controllers know,
and changed through `with_fields`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

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
