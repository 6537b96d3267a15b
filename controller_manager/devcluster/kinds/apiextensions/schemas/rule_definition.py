"""Validation of a CEL rule in a definition (apiextensions, schema/cel)."""

import re
from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.cel.checker import check
from controller_manager.cel.syntax import SyntaxProblem, text_of
from controller_manager.cel.types import Optional, Scalar, Type
from controller_manager.devcluster.cel.program import Program
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)

from .keywords import RULES, child, key, properties_of
from .rule_values import declared_type
from .rules import program_of

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
