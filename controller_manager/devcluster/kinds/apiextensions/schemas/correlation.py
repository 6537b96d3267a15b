"""The old value of each part of a changed object (apiserver/pkg/cel/common)."""

from typing import Any, Final

from controller_manager.api.json_objects import JSON

from .keywords import LIST_KEYS, LIST_TYPE, MAP_TYPE


class Absent:
    """The old value of a part that is new, or that has no identity in its list."""


ABSENT: Final = Absent()


def old_field(old: Any, schema: JSON, name: str) -> Any:
    """Return the old value of a field, `ABSENT` if there was none."""
    if not isinstance(old, dict) or schema.get(MAP_TYPE) == "atomic":
        return ABSENT
    return old.get(name, ABSENT)


def old_items(old: Any, new: list[Any], schema: JSON) -> list[Any]:
    """Return the old value of each item; only items of a map list have old values."""
    keys = schema.get(LIST_KEYS)
    if not isinstance(old, list) or schema.get(LIST_TYPE) != "map" or not keys:
        return [ABSENT] * len(new)
    known = [(item_key(each, keys), each) for each in old]
    return [
        next((each for found, each in known if found == item_key(item, keys)), ABSENT)
        for item in new
    ]


def item_key(item: Any, keys: list[str]) -> Any:
    """Return the fields that tell an item from others."""
    if not isinstance(item, dict):
        return None
    return {name: item[name] for name in keys if name in item}
