"""Objects of a schema: pruning, defaults, sets and map lists, embedded resources.

Upstream: schema/pruning, schema/defaulting, schema/listtype, schema/objectmeta.
"""

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme import names, statuses
from controller_manager.devcluster.scheme.decoding import Decoder
from controller_manager.devcluster.scheme.models import OBJECT_META
from controller_manager.devcluster.scheme.readers import TypeMismatch

from .keywords import (
    EMBEDDED,
    LIST_KEYS,
    LIST_TYPE,
    META,
    PRESERVES,
    child,
    inner_schemas,
    item_key,
    items_of,
    key,
    parts,
    properties_of,
    schema_of_others,
)
from .validation import validate_value

# Checks that sets and map lists have no item twice (schema/listtype).


def validate_lists(value: Any, schema: JSON, path: str = "") -> list[statuses.Cause]:
    """Return a cause for each duplicate item in a set or a map list."""
    has_items = isinstance(value, list) and items_of(schema) is not None
    causes = _duplicates(value, schema, path) if has_items else []
    for where, each, inner in parts(value, schema, path):
        causes += validate_lists(each, inner, where)
    return causes


def _duplicates(value: list[Any], schema: JSON, path: str) -> list[statuses.Cause]:
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
        text = statuses.shown(each)
        if text in seen and text not in reported:
            reported.add(text)
            causes.append(statuses.duplicate(key(path, str(number)), text))
        seen.add(text)
    return causes


# Resources in a field of another resource (schema/objectmeta).


def coerced_metadata(
    metadata: Any, path: tuple[str | int, ...] = ("metadata",)
) -> tuple[JSON, list[str]]:
    """Return metadata as Go would store it, and its unknown fields.

    `path` leads to the metadata. Raises TypeMismatch for a value of a wrong type.
    """
    if not isinstance(metadata, dict):
        text = "json: cannot unmarshal metadata into Go value of type v1.ObjectMeta"
        raise TypeMismatch(text)
    decoder = Decoder()
    return decoder.decode(metadata, OBJECT_META, path), decoder.problems


def coerced(
    value: Any, schema: JSON, path: tuple[str | int, ...] = ()
) -> tuple[Any, list[str]]:
    """Return a value whose embedded resources have known metadata, and the unknown.

    Metadata of a wrong type is left for the validation. The given value does not
    change.
    """
    unknown: list[str] = []
    return _coerced(value, schema, path, unknown), unknown


def _coerced(
    value: Any, schema: JSON, path: tuple[str | int, ...], unknown: list[str]
) -> Any:
    if isinstance(value, list):
        items = items_of(schema)
        if not items:
            return value
        return [
            _coerced(each, items, (*path, number), unknown)
            for number, each in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    result = dict(value)
    if schema.get(EMBEDDED) and isinstance(value.get("metadata"), dict):
        with suppress(TypeMismatch):  # the validation tells of it
            result["metadata"], more = coerced_metadata(
                value["metadata"], (*path, "metadata")
            )
            unknown += more
    known, others = properties_of(schema), schema_of_others(schema)
    for name, each in value.items():
        inner = known.get(name, others)
        if inner and not (schema.get(EMBEDDED) and name == "metadata"):
            result[name] = _coerced(each, inner, (*path, name), unknown)
    return result


def validate_embedded(
    value: Any, schema: JSON, path: str = ""
) -> Iterator[statuses.Cause]:
    """Yield the errors in the resources that a value embeds."""
    if isinstance(value, dict) and schema.get(EMBEDDED):
        yield from _validate_resource(value, path)
    for where, each, inner in parts(value, schema, path):
        yield from validate_embedded(each, inner, where)


def _validate_resource(resource: JSON, path: str) -> Iterator[statuses.Cause]:
    for name in ("apiVersion", "kind"):
        if not resource.get(name):
            yield statuses.required(child(path, name), "must not be empty")
    metadata = resource.get("metadata", {})
    where = child(path, "metadata")
    try:
        found, _ = coerced_metadata(metadata)
    except TypeMismatch as error:
        yield statuses.invalid(where, '""', str(error))
        return
    yield from names.validate_labels(found.get("labels", {}), child(where, "labels"))
    annotations = found.get("annotations", {})
    yield from names.validate_annotations(annotations, child(where, "annotations"))


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
) -> Iterator[statuses.Cause]:
    """Yield the errors in the defaults of a structural schema."""
    if "default" in schema:
        yield from _validate_default(schema, child(path, "default"))
    if (items := items_of(schema)) is not None:
        yield from validate_defaults(items, child(path, "items"))
    is_resource = is_resource or schema.get(EMBEDDED, False)
    for name, each in properties_of(schema).items():
        if not (is_resource and name in META):
            yield from validate_defaults(each, key(child(path, "properties"), name))


def _validate_default(schema: JSON, path: str) -> Iterator[statuses.Cause]:
    default = schema["default"]
    _, unknown = pruned(default, schema)
    if unknown:
        yield statuses.invalid(
            path, statuses.shown(default), "must not have unknown fields"
        )
    causes = list(validate_embedded(default, schema, path))
    yield from causes or validate_value(default, schema, base=path)


# Fills in the defaults of schemas (schema/defaulting).


def has_defaults(schema: JSON) -> bool:
    """Tell whether a schema sets a default anywhere."""
    return "default" in schema or any(map(has_defaults, inner_schemas(schema)))


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
