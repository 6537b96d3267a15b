"""Checks that sets and map lists have no item twice (schema/listtype)."""

from typing import Any

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause, duplicate, shown

from .correlation import item_key
from .keywords import (
    LIST_KEYS,
    LIST_TYPE,
    child,
    items_of,
    key,
    properties_of,
    schema_of_others,
)


def validate_lists(value: Any, schema: JSON, path: str = "") -> list[Cause]:
    """Return a cause for each duplicate item in a set or a map list."""
    causes: list[Cause] = []
    if isinstance(value, dict):
        known, others = properties_of(schema), schema_of_others(schema)
        for name, each in value.items():
            inner = known.get(name, others)
            if inner is not None:
                causes += validate_lists(each, inner, child(path, name))
    elif isinstance(value, list):
        items = items_of(schema)
        if items is None:
            return causes
        causes += _duplicates(value, schema, path)
        for number, each in enumerate(value):
            causes += validate_lists(each, items, key(path, str(number)))
    return causes


def _duplicates(value: list[Any], schema: JSON, path: str) -> list[Cause]:
    match schema.get(LIST_TYPE):
        case "set":
            found = value
        case "map":
            keys = schema.get(LIST_KEYS) or []
            found = [item_key(each, keys) for each in value if isinstance(each, dict)]
        case _:
            return []
    seen: set[str] = set()
    reported: set[str] = set()
    causes = []
    for number, each in enumerate(found):
        text = shown(each)
        if text in seen and text not in reported:
            reported.add(text)
            causes.append(duplicate(key(path, str(number)), text))
        seen.add(text)
    return causes
