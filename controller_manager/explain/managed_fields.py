"""Reads the managed fields of objects: which manager wrote which field, and when."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON, object_at, objects_at

from .items import Item, text_at


class Writer(Struct, frozen=True):
    """A field manager, its operation, and the time of its last write (RFC 3339).

    `subresource` is the part that it wrote, such as ``status`` or ``scale``.
    """

    manager: str
    operation: str
    at: str
    subresource: str
    fields: JSON


_STATUS: Final = "status"


def writers(item: Item) -> Iterator[Writer]:
    """Yield the managers of an object's fields, without those of its status."""
    for each in objects_at(item.metadata, "managedFields"):
        if text_at(each, "subresource") != _STATUS:
            yield Writer(
                text_at(each, "manager"),
                text_at(each, "operation"),
                text_at(each, "time"),
                text_at(each, "subresource"),
                object_at(each, "fieldsV1"),
            )


def writers_of(item: Item, *path: str) -> tuple[Writer, ...]:
    """Return the managers of one field, such as ``spec`` ``replicas``."""
    return tuple(each for each in writers(item) if _owns(each.fields, path))


def _owns(fields: JSON, path: tuple[str, ...]) -> bool:
    for name in path[:-1]:
        fields = object_at(fields, f"f:{name}")
    return f"f:{path[-1]}" in fields


def last_spec_change(item: Item) -> str:
    """Return the time of the last write of a manager of the spec; empty for none."""
    found = (each.at for each in writers(item) if "f:spec" in each.fields)
    return max(found, default="")


def last_change(item: Item) -> str:
    """Return the time of the last write that was not of the status; empty for none."""
    return max((each.at for each in writers(item)), default="")
