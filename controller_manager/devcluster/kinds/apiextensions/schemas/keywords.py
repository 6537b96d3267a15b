"""The keywords of schemas, and the paths of the fields that they describe."""

from typing import Final

from controller_manager.api.json_objects import JSON

EMBEDDED: Final = "x-kubernetes-embedded-resource"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"
LIST_TYPE: Final = "x-kubernetes-list-type"
MAP_TYPE: Final = "x-kubernetes-map-type"
PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
RULES: Final = "x-kubernetes-validations"

META: Final = ("apiVersion", "kind", "metadata")
"""The fields that each resource has, with any schema."""


def child(path: str, name: str) -> str:
    """Return the path of a field."""
    return f"{path}.{name}" if path else name


def key(path: str, name: str) -> str:
    """Return the path of an entry of a map."""
    return f"{path}[{name}]"


def properties_of(schema: JSON) -> JSON:
    """Return the schemas of an object's fields, by name."""
    return schema.get("properties") or {}


def schema_of_others(schema: JSON) -> JSON | None:
    """Return the schema of the additional properties, `None` if there are none.

    The schema is empty if they may have any value.
    """
    others = schema.get("additionalProperties")
    if others is None or others is False:
        return None
    return others if isinstance(others, dict) else {}


def items_of(schema: JSON) -> JSON | None:
    """Return the schema of a list's items."""
    items = schema.get("items")
    return items if isinstance(items, dict) else None
