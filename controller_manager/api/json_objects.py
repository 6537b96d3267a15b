"""Reading decoded JSON that is not validated."""

from collections.abc import Iterator
from typing import Any

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
