"""Checks that sets and map lists have no item twice (schema/listtype)."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.decoding import Decoder
from controller_manager.devcluster.scheme.models import OBJECT_META
from controller_manager.devcluster.scheme.names import (
    PatternProblem,
    compiled,
    validate_annotations,
    validate_labels,
)
from controller_manager.devcluster.scheme.readers import TypeMismatch
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    required,
    shown,
)

from .keywords import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVES,
    RULES,
    child,
    item_key,
    items_of,
    key,
    properties_of,
    schema_of_others,
)

# Checks that sets and map lists have no item twice (schema/listtype).


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


def validate_embedded(value: Any, schema: JSON, path: str = "") -> Iterator[Cause]:
    """Yield the errors in the resources that a value embeds."""
    if isinstance(value, list):
        items = items_of(schema)
        for number, each in enumerate(value if items else ()):
            yield from validate_embedded(each, items or {}, key(path, str(number)))
    if not isinstance(value, dict):
        return
    if schema.get(EMBEDDED):
        yield from _validate(value, path)
    known, others = properties_of(schema), schema_of_others(schema)
    for name, each in value.items():
        inner = known.get(name, others)
        if inner is not None:
            yield from validate_embedded(each, inner, child(path, name))


def _validate(resource: JSON, path: str) -> Iterator[Cause]:
    for name in ("apiVersion", "kind"):
        if not resource.get(name):
            yield required(child(path, name), "must not be empty")
    metadata = resource.get("metadata", {})
    where = child(path, "metadata")
    try:
        found, _ = coerced_metadata(metadata)
    except TypeMismatch as error:
        yield invalid(where, '""', str(error))
        return
    yield from validate_labels(found.get("labels", {}), child(where, "labels"))
    annotations = found.get("annotations", {})
    yield from validate_annotations(annotations, child(where, "annotations"))


# Checks that a schema is structural (schema/validation.go and schema/complete.go).

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
"""The only schemas in an ``anyOf`` that may have types."""

_COMBINED: Final = ("allOf", "anyOf", "oneOf")

_FORBIDDEN: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (PRESERVES, "must be false to be structural"),
    (EMBEDDED, "must be false to be structural"),
    (INT_OR_STRING, "must be false to be structural"),
    (LIST_KEYS, "must be empty to be structural"),
    (LIST_TYPE, "must be undefined to be structural"),
    (MAP_TYPE, "must be undefined to be structural"),
    (RULES, "must be empty to be structural"),
)
"""The fields that are forbidden in ``allOf``, ``anyOf``, ``oneOf`` and ``not``."""

_NO_TYPE: Final = {
    "root": "must not be empty at the root",
    "items": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_ONLY_NAMES: Final = (
    "must not specify anything other than name and generateName, but metadata is "
    "implicitly specified"
)


def validate_structure(schema: JSON, path: str) -> list[Cause]:
    """Return why a schema is not structural, in the order of the texts."""
    causes = [
        *_validate_schema(schema, "root", path),
        *_complete(schema, schema, path, path),
    ]
    return sorted(causes, key=str)


def _validate_schema(schema: JSON, level: str, path: str) -> Iterator[Cause]:
    items = items_of(schema)
    if schema.get("type") == "array" and items is None:
        yield required(child(path, "items"), "must be specified")
    if items is not None:
        yield from _validate_schema(items, "items", child(path, "items"))
    for name, each in properties_of(schema).items():
        yield from _validate_schema(each, "field", key(child(path, "properties"), name))
    if (others := schema.get("additionalProperties")) is not None:
        where = child(path, "additionalProperties")
        if level == "root":
            yield forbidden_field(where, "must not be used at the root")
        if isinstance(others, dict):
            yield from _validate_schema(others, "field", where)
    yield from _validate_extensions(schema, path)
    yield from _validate_values(schema, path)
    yield from _validate_type(schema, level, path)
    yield from _validate_resource(schema, level, path)


def _validate_extensions(schema: JSON, path: str) -> Iterator[Cause]:
    if not schema.get(INT_OR_STRING):
        return
    for name in (PRESERVES, EMBEDDED):
        if schema.get(name):
            detail = f"must be false if {INT_OR_STRING} is true"
            yield invalid(child(path, name), "true", detail)


def _validate_type(schema: JSON, level: str, path: str) -> Iterator[Cause]:
    type_, where = schema.get("type", ""), child(path, "type")
    if schema.get(EMBEDDED) and type_ != "object":
        detail = f"must be object if {EMBEDDED} is true"
        yield invalid(where, shown(type_), detail) if type_ else required(where, detail)
    elif not type_ and not schema.get(INT_OR_STRING) and not schema.get(PRESERVES):
        yield required(where, _NO_TYPE[level])
    if level == "root" and type_ not in ("", "object"):
        yield invalid(where, shown(type_), "must be object at the root")


def _validate_resource(schema: JSON, level: str, path: str) -> Iterator[Cause]:
    """Check the fields that each resource has."""
    is_embedded, known = schema.get(EMBEDDED, False), properties_of(schema)
    if is_embedded and schema.get("additionalProperties") is not None:
        detail = f"must not be used if {EMBEDDED} is set"
        yield forbidden_field(child(path, "additionalProperties"), detail)
    is_resource = level == "root" or is_embedded
    for name, wanted in (
        ("kind", "string"),
        ("apiVersion", "string"),
        ("metadata", "object"),
    ):
        found = known.get(name)
        if found is not None and is_resource and found.get("type", "") != wanted:
            where = child(key(child(path, "properties"), name), "type")
            yield invalid(where, shown(found.get("type", "")), f"must be {wanted}")
    metadata = known.get("metadata")
    if metadata is not None and level == "root":
        more = {*metadata} - {"type", "properties"}
        more |= {*properties_of(metadata)} - {"name", "generateName"}
        if more:
            where = key(child(path, "properties"), "metadata")
            yield forbidden_field(where, _ONLY_NAMES)
    if is_embedded and not schema.get(PRESERVES) and not known:
        detail = f"must not be empty if {EMBEDDED} is true without {PRESERVES}"
        yield required(child(path, "properties"), detail)


# Schemas that check values and define no fields


def _validate_values(schema: JSON, path: str) -> Iterator[Cause]:
    """Check the parts of a schema that check values and define no fields."""
    for name in _COMBINED:
        for number, each in enumerate(schema.get(name) or ()):
            if _is_int_or_string(schema, name):
                break
            where = key(child(path, name), str(number))
            first = name == "allOf" and number == 0
            yield from _validate_nested(each, where, may_be_int_or_string=first)
    if (other := schema.get("not")) is not None:
        yield from _validate_nested(other, child(path, "not"))
    if pattern := schema.get("pattern"):
        try:
            compiled(pattern)
        except PatternProblem as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(child(path, "pattern"), shown(pattern), detail)


def _is_int_or_string(schema: JSON, name: str) -> bool:
    return name == "anyOf" and schema.get(name) == _INT_OR_STRING


def _validate_nested(
    schema: JSON, path: str, *, may_be_int_or_string: bool = False
) -> Iterator[Cause]:
    seen = schema
    if not may_be_int_or_string and _is_int_or_string(schema, "anyOf"):
        for number in range(2):
            where = child(key(child(path, "anyOf"), str(number)), "type")
            yield forbidden_field(where, "must be empty to be structural")
        seen = {name: each for name, each in schema.items() if name != "anyOf"}
    yield from _validate_values(seen, path)
    if (items := items_of(schema)) is not None:
        yield from _validate_nested(items, child(path, "items"))
    for name, each in properties_of(schema).items():
        yield from _validate_nested(each, key(child(path, "properties"), name))
    for name, detail in _FORBIDDEN:
        if schema.get(name):
            yield forbidden_field(child(path, name), detail)
    if "metadata" in properties_of(schema):
        where = key(child(path, "properties"), "metadata")
        yield forbidden_field(where, "must not be specified in a nested context")


# Completeness: every checked field is a field of the schema


def _complete(
    values: JSON, schema: JSON | None, path: str, values_path: str
) -> Iterator[Cause]:
    """Check that all fields in combinations are fields of the schema itself."""
    parts = [(values["not"], child(values_path, "not"))] if "not" in values else []
    parts += [
        (each, key(child(values_path, name), str(number)))
        for name in _COMBINED
        for number, each in enumerate(values.get(name) or ())
    ]
    for part, where in parts:
        yield from _complete_nested(part, schema, path, where)


def _complete_nested(
    values: JSON, schema: JSON | None, path: str, values_path: str
) -> Iterator[Cause]:
    if schema is None:
        yield required(path, f"because it is defined in {values_path}")
        return
    yield from _complete(values, schema, path, values_path)
    if (items := items_of(values)) is not None:
        inner, where = items_of(schema), child(values_path, "items")
        yield from _complete_nested(items, inner, child(path, "items"), where)
    for name, each in properties_of(values).items():
        here = key(child(path, "properties"), name)
        where = key(child(values_path, "properties"), name)
        yield from _complete_nested(each, properties_of(schema).get(name), here, where)
