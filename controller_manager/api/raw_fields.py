"""Fields that are kept as bytes: what a PUT sends back has every field that came.

A complete object that the cache holds may have fields that are newer than this program.
Such an object keeps its spec and its status as bytes. It is read through a view, which
decodes the fields that controllers know, and changed through `with_fields`.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

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
