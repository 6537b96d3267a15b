"""Removes fields that no schema knows (schema/pruning)."""

from typing import Any

from controller_manager.api.json_objects import JSON

from .keywords import (
    EMBEDDED,
    META,
    PRESERVES,
    child,
    items_of,
    key,
    properties_of,
    schema_of_others,
)


def pruned(
    value: Any, schema: JSON, *, is_resource: bool = False
) -> tuple[Any, list[str]]:
    """Return a value without its unknown fields, and the paths of these.

    `is_resource` says that the value has a kind, a version and metadata. The given
    value does not change.
    """
    unknown: list[str] = []
    return _pruned(value, schema, "", unknown, is_resource=is_resource), unknown


def _pruned(
    value: Any,
    schema: JSON,
    path: str,
    unknown: list[str],
    *,
    is_resource: bool = False,
) -> Any:
    if isinstance(value, list):
        items = items_of(schema)
        if items is None and schema.get(PRESERVES):
            return value
        return [
            _pruned(each, items or {}, key(path, str(number)), unknown)
            for number, each in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    is_resource = is_resource or schema.get(EMBEDDED, False)
    known, others = properties_of(schema), schema_of_others(schema)
    result = {}
    for name, inner in value.items():
        where = child(path, name)
        if is_resource and name in META:
            result[name] = inner
        elif name in known:
            result[name] = _pruned(inner, known[name], where, unknown)
        elif others is not None:
            result[name] = _pruned(inner, others, where, unknown)
        elif schema.get(PRESERVES):
            result[name] = inner
        else:
            unknown.append(where)
    return result
