"""Validation of the schema in a definition, and of its CEL rules (apiextensions)."""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from controller_manager.api.json_objects import JSON
from controller_manager.cel.syntax import SyntaxProblem
from controller_manager.cel.types import Optional, Scalar, Type
from controller_manager.devcluster.scheme.names import PatternProblem, compiled
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.text import table

from .keywords import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    META,
    PRESERVES,
    RULES,
    child,
    items_of,
    key,
    properties_of,
)
from .rules import checked, declared_type, program_of

# Validation of a CEL rule in a definition (apiextensions, schema/cel).

_REASONS: Final = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
_BREAKS: Final = re.compile(r"[\n\r]")


def validate_rules(
    schema: JSON, path: str, *, is_root: bool, uncorrelatable: str
) -> Iterator[Cause]:
    """Yield the errors in the rules of a schema.

    `uncorrelatable` is the path of the outermost part around the schema whose old value
    cannot be found, empty if there is none.
    """
    for number, rule in enumerate(schema.get(RULES) or ()):
        where = key(child(path, RULES), str(number))
        causes = [*_validate_words(rule, schema, where)]
        yield from causes
        if not causes:
            types = {"self": declared_type(schema, is_resource=is_root)}
            yield from _validate_rule(rule, types, where)
            yield from _validate_transition(rule, uncorrelatable, where)


def _validate_words(rule: JSON, schema: JSON, path: str) -> Iterator[Cause]:
    text, message = rule.get("rule", "").strip(), rule.get("message", "")
    where = child(path, "message")
    if not text:
        yield required(child(path, "rule"), "rule is not specified")
    elif message and not message.strip():
        yield invalid(where, shown(message), "message must be non-empty if specified")
    elif _BREAKS.search(message.strip()):
        yield invalid(where, shown(message), "message must not contain line breaks")
    elif _BREAKS.search(text) and not message.strip():
        detail = "message must be specified if rule contains line breaks"
        yield required(where, detail)
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(child(path, "reason"), shown(reason), _REASONS)
    field = rule.get("fieldPath", "")
    if field and not _has_field(schema, field):
        detail = "fieldPath must be a valid path"
        yield invalid(child(path, "fieldPath"), shown(field), detail)


def _has_field(schema: JSON, path: str) -> bool:
    """Tell whether a path such as ``.spec.x`` leads to a field of the schema."""
    found: JSON | None = schema
    steps = re.findall(r"\.([^.\[\]]+)|\['([^']+)'\]", path)
    if "".join(f".{one}" if one else f"['{two}']" for one, two in steps) != path:
        return False
    for one, two in steps:
        found = properties_of(found).get(one or two) if found is not None else None
    return found is not None


def _validate_rule(rule: JSON, types: dict[str, Type], path: str) -> Iterator[Cause]:
    own = types["self"]
    known = {**types, "oldSelf": Optional(own) if rule.get("optionalOldSelf") else own}
    for name, wanted, detail in (
        ("rule", "bool", "must evaluate to a bool"),
        ("messageExpression", "string", "must evaluate to a string"),
    ):
        if name not in rule:
            continue
        problem, _, found = checked(rule[name], known)
        if not problem and isinstance(found, Scalar) and found.name != wanted:
            problem = detail
        if problem:
            yield invalid(child(path, name), shown(rule), problem)


def _validate_transition(rule: JSON, uncorrelatable: str, path: str) -> Iterator[Cause]:
    try:
        compares = program_of(rule["rule"]).uses("oldSelf")
    except SyntaxProblem:
        return
    if compares and uncorrelatable:
        detail = (
            "oldSelf cannot be used on the uncorrelatable portion of the schema within "
            f"{uncorrelatable}"
        )
        yield invalid(child(path, "rule"), shown(rule["rule"]), detail)
    if not compares and rule.get("optionalOldSelf") is not None:
        detail = "may not be set if oldSelf is not used in rule"
        value = shown(rule["optionalOldSelf"])
        yield invalid(child(path, "optionalOldSelf"), value, detail)


# Validation of the schema in a definition (validation of apiextensions).

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = (
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
)
_UNIQUE: Final = (
    "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
)


class _Where(NamedTuple):
    """The context of a schema inside the schema of its definition."""

    no_defaults: str = ""
    """The reason why a default is forbidden here, empty if it is allowed."""

    is_root: bool = False
    is_in_meta: bool = False
    uncorrelatable: str = ""
    """The path of the outermost part whose old value cannot be found."""


def validate_schema(schema: JSON, path: str) -> Iterator[Cause]:
    """Yield the errors in a schema; `path` is its field in the definition."""
    yield from _validate(schema, path, _Where(is_root=True))


def _validate(schema: Any, path: str, where: _Where) -> Iterator[Cause]:
    if not isinstance(schema, dict):
        return
    yield from _validate_schema_words(schema, path, where)
    yield from _validate_fields(schema, path, where)
    inner = where._replace(is_root=False)
    if (other := schema.get("not")) is not None:
        yield from _validate(other, child(path, "not"), inner)
    for name in ("allOf", "oneOf", "anyOf"):
        for number, each in enumerate(schema.get(name) or ()):
            yield from _validate(each, key(child(path, name), str(number)), inner)
    within = inner
    if schema.get(LIST_TYPE) != "map" and not inner.uncorrelatable:
        within = inner._replace(uncorrelatable=path)
    yield from _validate(schema.get("items"), child(path, "items"), within)
    if schema.get(PRESERVES) is False:
        detail = "must be true or undefined"
        yield invalid(child(path, PRESERVES), "false", detail)
    yield from _LIST_AND_MAP.errors(schema, path=f"{path}.")
    yield from _validate_keys(schema, path)
    yield from validate_rules(
        schema, path, is_root=where.is_root, uncorrelatable=where.uncorrelatable
    )


def _validate_schema_words(schema: JSON, path: str, where: _Where) -> Iterator[Cause]:
    type_ = schema.get("type", "")
    if type_ and type_ not in _TYPES:
        yield not_supported(child(path, "type"), shown(type_), _TYPES)
    if "default" in schema and where.no_defaults:
        detail = f"must not be set {where.no_defaults}"
        yield forbidden_field(child(path, "default"), detail)
    for name in _UNSUPPORTED:
        if name in schema:
            yield forbidden_field(child(path, name), f"{name} is not supported")
    if type_ == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        yield forbidden_field(child(path, "type"), detail)
    if isinstance(schema.get("items"), list):
        detail = "items must be a schema object and not an array"
        yield forbidden_field(child(path, "items"), detail)
    if where.is_in_meta and schema.get(EMBEDDED):
        detail = "must not be used inside of resource meta"
        yield forbidden_field(child(path, EMBEDDED), detail)
    if schema.get("uniqueItems"):
        yield forbidden_field(child(path, "uniqueItems"), _UNIQUE)


def _validate_fields(schema: JSON, path: str, where: _Where) -> Iterator[Cause]:
    others, known = schema.get("additionalProperties"), properties_of(schema)
    inner = where._replace(is_root=False)
    if others is not None:
        here = child(path, "additionalProperties")
        if known and others is not True:
            detail = "additionalProperties and properties are mutual exclusive"
            yield forbidden_field(here, detail)
        why = "inside additionalProperties applying to object metadata"
        within = inner._replace(no_defaults=why) if where.is_in_meta else inner
        yield from _validate(others, here, within)
    is_resource = where.is_root or schema.get(EMBEDDED, False)
    if schema.get(MAP_TYPE) == "atomic" and not inner.uncorrelatable:
        inner = inner._replace(uncorrelatable=path)
    for name, each in known.items():
        within = inner
        if is_resource and name in META:
            within = inner._replace(is_in_meta=True)
            if where.is_root:
                within = within._replace(no_defaults=f"in top-level {name}")
        yield from _validate(each, key(child(path, "properties"), name), within)


def _set_of_atoms(schema: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check that the items of a set are atomic."""
    items = items_of(schema) or {}
    detail = f"must be atomic as item of a list with {LIST_TYPE}=set"
    if items.get("type") == "array" and items.get(LIST_TYPE, "atomic") != "atomic":
        yield invalid(f"{path}items.{LIST_TYPE}", shown(items[LIST_TYPE]), detail)
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        yield invalid(f"{path}items.{MAP_TYPE}", shown(items.get(LIST_TYPE)), detail)


_LIST_AND_MAP: Final = table("""
    when has x-kubernetes-map-type:
      type: required "must be object if x-kubernetes-map-type is specified"
      type: invalid if type is-not object null empty
        "must be object if x-kubernetes-map-type is specified"
      x-kubernetes-map-type: enum atomic granular
    when has x-kubernetes-list-type:
      type: required "must be array if x-kubernetes-list-type is specified"
      type: invalid if type is-not array null empty
        "must be array if x-kubernetes-list-type is specified"
      when type is array and x-kubernetes-list-type is set:
        hook set_of_atoms
      x-kubernetes-list-type: enum atomic set map
    """)


def _validate_keys(schema: JSON, path: str) -> Iterator[Cause]:
    list_type, keys = schema.get(LIST_TYPE), schema.get(LIST_KEYS) or []
    items = items_of(schema)
    if keys and list_type != "map":
        where = child(path, LIST_TYPE)
        detail = f"must be map if {LIST_KEYS} is non-empty"
        if list_type is None:
            yield required(where, detail)
        else:
            yield invalid(where, shown(list_type), detail)
    if list_type == "map":
        yield from _validate_map(items, keys, path)
    if list_type in ("set", "map") and items is not None:
        yield from _validate_items(items, list_type, keys, child(path, "items"))


def _validate_map(items: JSON | None, keys: list[str], path: str) -> Iterator[Cause]:
    if not keys:
        detail = f"must not be empty if {LIST_TYPE} is map"
        yield required(child(path, LIST_KEYS), detail)
    if items is None:
        detail = f"must have a schema if {LIST_TYPE} is map"
        yield required(child(path, "items"), detail)
        return
    where = child(path, "items")
    if items.get("type") != "object":
        detail = f"must be object if parent array's {LIST_TYPE} is map"
        yield invalid(child(where, "type"), shown(items.get("type", "")), detail)
        return
    seen: set[str] = set()
    for name in keys:
        found = properties_of(items).get(name)
        if found is None:
            detail = "entries must all be names of item properties"
            yield invalid(child(path, LIST_KEYS), shown(keys), detail)
        elif found.get("type") in ("array", "object"):
            here = child(key(child(where, "properties"), name), "type")
            detail = f"must be a scalar type if parent array's {LIST_TYPE} is map"
            yield invalid(here, shown(items["type"]), detail)
        if name in seen:
            detail = "must not contain duplicate entries"
            yield invalid(child(path, LIST_KEYS), shown(keys), detail)
        seen.add(name)


def _validate_items(
    items: JSON, list_type: str, keys: list[str], path: str
) -> Iterator[Cause]:
    """Check that an item and each of its keys are required and never null."""
    if items.get("nullable"):
        detail = f"cannot be nullable when {LIST_TYPE} is {list_type}"
        yield forbidden_field(child(path, "nullable"), detail)
    if list_type == "set":
        return
    this = f"this property is in {LIST_KEYS}"
    for name in keys:
        found = properties_of(items).get(name)
        if found is None:
            continue
        where = key(child(path, "properties"), name)
        if name not in (items.get("required") or ()) and "default" not in found:
            detail = f"{this}, so it must have a default or be a required property"
            yield required(child(where, "default"), detail)
        if found.get("nullable"):
            detail = f"{this}, so it cannot be nullable"
            yield forbidden_field(child(where, "nullable"), detail)


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
        *_validate_level(schema, "root", path),
        *_complete(schema, schema, path, path),
    ]
    return sorted(causes, key=str)


def _validate_level(schema: JSON, level: str, path: str) -> Iterator[Cause]:
    items = items_of(schema)
    if schema.get("type") == "array" and items is None:
        yield required(child(path, "items"), "must be specified")
    if items is not None:
        yield from _validate_level(items, "items", child(path, "items"))
    for name, each in properties_of(schema).items():
        yield from _validate_level(each, "field", key(child(path, "properties"), name))
    if (others := schema.get("additionalProperties")) is not None:
        where = child(path, "additionalProperties")
        if level == "root":
            yield forbidden_field(where, "must not be used at the root")
        if isinstance(others, dict):
            yield from _validate_level(others, "field", where)
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
