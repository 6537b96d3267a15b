"""Removes fields that no schema knows (schema/pruning)."""

import copy
from collections.abc import Iterator
from typing import Any

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown

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
from .structure import validate_embedded
from .validation import validate_value

# Removes fields that no schema knows (schema/pruning).


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


# Checks the defaults of a schema (schema/defaulting/validation.go).


def validate_defaults(
    schema: JSON, path: str, *, is_resource: bool = False
) -> Iterator[Cause]:
    """Yield the errors in the defaults of a structural schema."""
    if "default" in schema:
        yield from _validate(schema, child(path, "default"))
    if (items := items_of(schema)) is not None:
        yield from validate_defaults(items, child(path, "items"))
    is_resource = is_resource or schema.get(EMBEDDED, False)
    for name, each in properties_of(schema).items():
        if not (is_resource and name in META):
            yield from validate_defaults(each, key(child(path, "properties"), name))


def _validate(schema: JSON, path: str) -> Iterator[Cause]:
    default = schema["default"]
    _, unknown = pruned(default, schema)
    if unknown:
        yield invalid(path, shown(default), "must not have unknown fields")
    causes = list(validate_embedded(default, schema, path))
    yield from causes or validate_value(default, schema, base=path)


# Fills in the defaults of schemas (schema/defaulting).


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
