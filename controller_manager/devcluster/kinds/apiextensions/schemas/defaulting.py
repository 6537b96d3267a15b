"""Fills in the defaults of schemas (schema/defaulting)."""

import copy
from typing import Any

from controller_manager.api.json_objects import JSON

from .keywords import items_of, properties_of, schema_of_others


def has_defaults(schema: Any) -> bool:
    """Tell whether a schema sets a default anywhere."""
    if not isinstance(schema, dict):
        return False
    if "default" in schema:
        return True
    parts = [*properties_of(schema).values(), items_of(schema)]
    return any(has_defaults(each) for each in [*parts, schema_of_others(schema)])


def defaulted(value: Any, schema: JSON) -> Any:
    """Return a value with its defaults, and without nulls that may not be there.

    A null becomes the default where there is one. The given value does not change.
    """
    if isinstance(value, list):
        items = items_of(schema)
        if items is None:
            return value
        return [defaulted(_replaced(each, items), items) for each in value]
    if not isinstance(value, dict):
        return value
    known, others = properties_of(schema), schema_of_others(schema)
    absent = {
        name: copy.deepcopy(each["default"])
        for name, each in known.items()
        if "default" in each and name not in value
    }
    result = {}
    for name, given in {**value, **absent}.items():
        inner = known.get(name, others)
        if inner is None:
            result[name] = given
            continue
        each = _replaced(given, inner)
        if each is not None or inner.get("nullable"):
            result[name] = defaulted(each, inner)
    return result


def _replaced(value: Any, schema: JSON) -> Any:
    """Return the default in the place of a null that may not be there."""
    if value is not None or schema.get("nullable"):
        return value
    return copy.deepcopy(schema.get("default"))
