"""Validation of a CEL rule in a definition (apiextensions, schema/cel)."""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from controller_manager.api.json_objects import JSON
from controller_manager.cel.checker import check
from controller_manager.cel.syntax import SyntaxProblem, text_of
from controller_manager.cel.types import Optional, Scalar, Type
from controller_manager.devcluster.cel.program import Program
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)

from .keywords import (
    EMBEDDED,
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
from .rules import declared_type, program_of

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
        problem = _problem(rule[name], known, wanted, detail)
        if problem:
            yield invalid(child(path, name), shown(rule), problem)


def _problem(text: str, types: dict[str, Type], wanted: str, detail: str) -> str:
    """Return why an expression cannot be a rule, "" if it can."""
    try:
        program: Program = program_of(text)
    except SyntaxProblem as error:
        return f"compilation failed: {error}"
    checked = check(program.node, types)
    problems = [*program.problems(frozenset(types)), *checked.problems]
    if problems:
        return f"compilation failed: {text_of(text, sorted({*problems}))}"
    if isinstance(checked.type, Scalar) and checked.type.name != wanted:
        return detail
    return ""


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
    yield from _validate_map_type(schema, path)
    yield from _validate_list_type(schema, path)
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


def _validate_map_type(schema: JSON, path: str) -> Iterator[Cause]:
    map_type, type_ = schema.get(MAP_TYPE), schema.get("type", "")
    if map_type is None:
        return
    if type_ != "object":
        where, detail = (
            child(path, "type"),
            f"must be object if {MAP_TYPE} is specified",
        )
        yield invalid(where, shown(type_), detail) if type_ else required(where, detail)
    supported = ("atomic", "granular")
    if map_type not in supported:
        yield not_supported(child(path, MAP_TYPE), shown(map_type), supported)


def _validate_list_type(schema: JSON, path: str) -> Iterator[Cause]:
    list_type, type_ = schema.get(LIST_TYPE), schema.get("type", "")
    if list_type is None:
        return
    where = child(path, "type")
    if type_ != "array":
        detail = f"must be array if {LIST_TYPE} is specified"
        yield invalid(where, shown(type_), detail) if type_ else required(where, detail)
    elif list_type == "set":
        yield from _validate_set(items_of(schema) or {}, child(path, "items"))
    supported = ("atomic", "set", "map")
    if list_type not in supported:
        yield not_supported(child(path, LIST_TYPE), shown(list_type), supported)


def _validate_set(items: JSON, path: str) -> Iterator[Cause]:
    detail = f"must be atomic as item of a list with {LIST_TYPE}=set"
    if items.get("type") == "array" and items.get(LIST_TYPE, "atomic") != "atomic":
        yield invalid(child(path, LIST_TYPE), shown(items[LIST_TYPE]), detail)
    if items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        yield invalid(child(path, MAP_TYPE), shown(items.get(LIST_TYPE)), detail)


def _validate_keys(schema: JSON, path: str) -> Iterator[Cause]:
    list_type, keys = schema.get(LIST_TYPE), schema.get(LIST_KEYS) or []
    items = items_of(schema)
    if keys and list_type != "map":
        where, detail = (
            child(path, LIST_TYPE),
            f"must be map if {LIST_KEYS} is non-empty",
        )
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
