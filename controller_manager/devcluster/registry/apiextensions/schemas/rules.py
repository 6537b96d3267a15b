"""CEL rules: values and types of objects, checks, and estimated costs.

The schema decides on the type of a value: ``1`` can be a double, and a text with the
format date-time is a timestamp. Fields get the escaped names that expressions use.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_day
from controller_manager.cel import syntax, types
from controller_manager.cel.checker import check
from controller_manager.cel.schemas import SCALARS
from controller_manager.cel.types import escaped
from controller_manager.devcluster.cel.evaluation import Budget, OutOfBudgetError
from controller_manager.devcluster.cel.program import Bounds, Program, estimated_cost
from controller_manager.devcluster.cel.standard_library import duration_of, timestamp_of
from controller_manager.devcluster.cel.values import NOTHING, EvaluationError, Maybe
from controller_manager.devcluster.scheme import statuses

from .keywords import (
    ABSENT,
    EMBEDDED,
    INT_OR_STRING,
    RULES,
    child,
    inner_schemas,
    items_of,
    key,
    old_field,
    old_items,
    properties_of,
    schema_of_others,
    wrong_value,
)

# Values of an object and their types, in the form for CEL (pkg/cel/common).

_FORMATS: Final[Mapping[str, types.Type]] = {
    "byte": types.BYTES,
    "date": types.TIMESTAMP,
    "date-time": types.TIMESTAMP,
    "duration": types.DURATION,
}
_TEXT: Final[JSON] = {"type": "string"}
_META: Final[JSON] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": {
        "type": "object",
        "properties": {"name": _TEXT, "generateName": _TEXT},
    },
}
"""The fields of each resource that rules may use."""


def fields_of(schema: JSON, *, is_resource: bool) -> JSON:
    """Return the schemas of the fields that rules may use."""
    known = properties_of(schema)
    return {**known, **_META} if is_resource or schema.get(EMBEDDED) else known


def declared_type(schema: JSON, *, is_resource: bool = False) -> types.Type:
    """Return the CEL type of the values that a schema describes."""
    if schema.get(INT_OR_STRING):
        return types.DYN
    match schema.get("type"):
        case "array" if (items := items_of(schema)) is not None:
            return types.ListOf(declared_type(items))
        case "object" if (others := schema_of_others(schema)) is not None:
            return types.MapOf(declared_type(others))
        case "object" if fields := fields_of(schema, is_resource=is_resource):
            return types.object_of(
                {
                    name: declared_type(each)
                    for found, each in fields.items()
                    if (name := types.escaped(found)) is not None
                }
            )
        case "string":
            return _FORMATS.get(schema.get("format", ""), types.STRING)
        case str(type_):
            return SCALARS.get(type_, types.DYN)
    return types.DYN


def rule_value(value: Any, schema: JSON, *, is_resource: bool = False) -> Any:
    """Return the CEL value of a JSON value; raises EvaluationError."""
    if schema.get(INT_OR_STRING) or value is None:
        return value
    match schema.get("type"), value:
        case "array", list():
            items = items_of(schema) or {}
            return [rule_value(each, items) for each in value]
        case "object", dict():
            return _object(value, schema, is_resource=is_resource)
        case "number", int() | float():
            return float(value)
        case "integer", float():
            return int(value)
        case "string", str():
            return _text(value, schema.get("format", ""))
    return value


def _object(value: JSON, schema: JSON, *, is_resource: bool) -> JSON:
    others = schema_of_others(schema)
    if others is not None:
        return {name: rule_value(each, others) for name, each in value.items()}
    fields = fields_of(schema, is_resource=is_resource)
    return {
        name: rule_value(value[found], each)
        for found, each in fields.items()
        if found in value and (name := types.escaped(found)) is not None
    }


def _midnight(text: str) -> datetime:
    day = parse_day(text)
    if day is None:
        msg = f"{text!r} is no day"
        raise ValueError(msg)
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _text(value: str, format_: str) -> Any:
    try:
        match format_:
            case "byte":
                return base64.b64decode(value)
            case "date":
                return _midnight(value)
            case "date-time":
                return timestamp_of(value)
            case "duration":
                return duration_of(value)
    except (binascii.Error, ValueError) as error:
        raise EvaluationError(str(error)) from None
    return value


# Checks objects by the rules of their schema (schema/cel/validation.go).

_MOST_STEPS_OF_RULE: Final = 300_000
"""The most steps of one rule: about one second (upstream: PerCallLimit)."""

_MOST_STEPS: Final = 2 * _MOST_STEPS_OF_RULE
"""The most steps of all rules of one object (upstream: RuntimeCELCostBudget)."""

_BLOCKING: Final = frozenset(
    (
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    )
)
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct "
    "the existing errors to complete validation"
)
_TOO_MANY_STEPS: Final = (
    "validation failed due to running out of cost budget, no further validation rules "
    "will be run"
)
_CALL_LIMIT: Final = (
    "'operation cancelled: actual cost limit exceeded': no further validation rules "
    "will be run due to call cost exceeds limit for rule: "
)
_MOST_CHARACTERS: Final = 5 << 10


@lru_cache(maxsize=4096)
def program_of(expression: str) -> Program:
    """Return an expression, ready to be evaluated; raises SyntaxProblem."""
    return Program(expression)


def checked(
    expression: str, names: Mapping[str, types.Type]
) -> tuple[str, syntax.Node | None, types.Type]:
    """Compile an expression that may use these names, with their types.

    Return why it cannot be compiled, "" if it can, its root and its type.
    """
    try:
        program = program_of(expression)
    except syntax.SyntaxProblem as error:
        return f"compilation failed: {error}", None, types.DYN
    found, why = check(program.node, names), ""
    if problems := {*program.problems(frozenset(names)), *found.problems}:
        text = syntax.text_of(expression, sorted(problems))
        why = f"compilation failed: {text}"
    return why, program.node, found.type


class _CallLimitError(Exception):
    """A rule takes more steps than one rule may take; has the cause."""

    def __init__(self, cause: statuses.Cause) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Rules:
    """The rules of a schema, which are valid."""

    def __init__(self, schema: JSON) -> None:
        self._schema = schema
        self._ruled: set[int] = set()
        """The parts of the schema with rules on or below them, by identity."""
        self._find(schema)

    def _find(self, schema: JSON) -> bool:
        found = [self._find(each) for each in inner_schemas(schema)]
        has_rules = bool(schema.get(RULES)) or any(found)
        if has_rules:
            self._ruled.add(id(schema))
        return has_rules

    def validate(
        self, obj: JSON, causes: list[statuses.Cause], old: Any = ABSENT
    ) -> list[statuses.Cause]:
        """Return the causes from the rules; validation has found `causes` before.

        Transition rules compare the object with the `old` one. Other rules do not check
        the parts that have not changed.
        """
        if id(self._schema) not in self._ruled:
            return []
        if any(each.reason in _BLOCKING for each in causes):
            return [wrong_value("", "null", _NOT_CHECKED)]
        budget, found = Budget(_MOST_STEPS), list[statuses.Cause]()
        try:
            for cause in self._walk(obj, self._schema, "", old, budget):
                found.append(cause)
        except _CallLimitError as error:
            found.append(error.cause)
        except OutOfBudgetError:
            found.append(wrong_value("", "object", _TOO_MANY_STEPS))
        return found

    def _walk(
        self, value: Any, schema: JSON, path: str, old: Any, budget: Budget
    ) -> Iterator[statuses.Cause]:
        if id(schema) not in self._ruled or value is None:
            return
        for rule in schema.get(RULES) or ():
            check = _Check(rule, schema, path, is_root=schema is self._schema)
            yield from check.causes(value, old, budget)
        if isinstance(value, dict):
            known, others = properties_of(schema), schema_of_others(schema)
            for name, each in value.items():
                inner = known.get(name, others)
                if inner is not None:
                    where = child(path, name) if name in known else key(path, name)
                    before = old_field(old, schema, name)
                    yield from self._walk(each, inner, where, before, budget)
        elif isinstance(value, list) and (items := items_of(schema)) is not None:
            before = old_items(old, value, schema)
            for number, each in enumerate(value):
                where = key(path, str(number))
                yield from self._walk(each, items, where, before[number], budget)


class _Check:
    """Evaluates one rule."""

    def __init__(self, rule: JSON, schema: JSON, path: str, *, is_root: bool) -> None:
        self._rule = rule
        self._schema = schema
        self._path = path
        self._is_root = is_root
        self._program = program_of(rule["rule"])

    def causes(self, value: Any, old: Any, total: Budget) -> Iterator[statuses.Cause]:
        """Yield the cause if the rule does not hold.

        Raises _CallLimitError if this rule takes too many steps, and OutOfBudgetError
        if the rules together do.
        """
        budget = Budget(_MOST_STEPS_OF_RULE, total)
        try:
            yield from self._causes(value, old, budget)
        except OutOfBudgetError:
            if budget.left >= 0:
                raise
            cause = self._cause(_CALL_LIMIT + self._text)
            raise _CallLimitError(cause) from None

    def _causes(self, value: Any, old: Any, budget: Budget) -> Iterator[statuses.Cause]:
        compares = self._program.uses("oldSelf")
        is_optional = self._rule.get("optionalOldSelf", False)
        if compares and old is ABSENT and not is_optional:
            return
        if not compares and old is not ABSENT and old == value:
            return
        try:
            names = {"self": self._seen(value)}
            if compares:
                before = None if old is ABSENT else self._seen(old)
                present = NOTHING if old is ABSENT else Maybe((before,))
                names["oldSelf"] = present if is_optional else before
            if self._program.evaluate(names, budget) is not True:
                yield self._failed(names, budget)
        except EvaluationError as error:
            yield self._cause(f"{error} evaluating rule: {self._text}")

    @property
    def _text(self) -> str:
        """The message of the rule, or the rule (ruleErrorString)."""
        text: str = self._rule.get("message") or self._rule["rule"].strip()
        return text

    def _seen(self, value: Any) -> Any:
        return rule_value(value, self._schema, is_resource=self._is_root)

    def _failed(self, names: JSON, budget: Budget) -> statuses.Cause:
        message = self._own_message(names, budget)
        default = f"failed rule: {self._rule['rule'].strip()}"
        return self._cause(message or self._rule.get("message", "").strip() or default)

    def _own_message(self, names: JSON, budget: Budget) -> str:
        """Return the value of the messageExpression, "" if it is unusable."""
        expression = self._rule.get("messageExpression")
        if not expression:
            return ""
        try:
            found = program_of(expression).evaluate(names, budget)
        except EvaluationError:
            return ""
        if not isinstance(found, str) or len(found) > _MOST_CHARACTERS:
            return ""
        return "" if "\n" in found.strip() else found.strip()

    def _cause(self, detail: str) -> statuses.Cause:
        path = self._path
        if field := self._rule.get("fieldPath", "").strip():
            path = child(path, field.removeprefix(".")) if path else field[1:]
        type_ = self._schema.get("type", "")
        match self._rule.get("reason"):
            case "FieldValueForbidden":
                return statuses.forbidden_field(path or "<nil>", detail)
            case "FieldValueRequired":
                return statuses.required(path or "<nil>", detail)
            case "FieldValueDuplicate":
                return statuses.duplicate(path or "<nil>", statuses.shown(type_))
        return wrong_value(path, type_, detail)


# The greatest sizes of the values that a schema describes (SchemaDeclType).

MOST_BYTES: Final = 3 << 20
"""The size of the largest request (MaxRequestSizeBytes)."""

_INSIDE: Final = MOST_BYTES - 2
"""The size of the largest value without its quotes or brackets."""

_BYTES_OF_CHARACTER: Final = 4
_TIMES: Final = {
    "date": Bounds(12, 12),
    "date-time": Bounds(32, 21),
    "duration": Bounds(32, 3),
}
_SCALARS: Final = {
    "boolean": Bounds(0, 4),
    "integer": Bounds(0, 1),
    "number": Bounds(0, 1),
}


def bounds_of(schema: JSON, *, is_resource: bool = False) -> Bounds | None:
    """Return the greatest sizes of a value, `None` if rules cannot use it."""
    if schema.get(INT_OR_STRING):
        return Bounds(_characters(schema, _INSIDE), 1)
    match schema.get("type"):
        case "array":
            item = bounds_of(items_of(schema) or {})
            if item is None:
                return None
            return Bounds(_limit(schema, "maxItems", item.least_bytes + 1), 2, item)
        case "object":
            others = schema.get("additionalProperties")
            if isinstance(others, dict):
                return _map_bounds(schema, others)
            return _object_bounds(schema, is_resource=is_resource)
        case "string":
            return _text_bounds(schema)
        case str(type_):
            return _SCALARS.get(type_)
    return None


def most_entries(schema: JSON) -> int | None:
    """Return how often each part of a value can be in it, `None` without a limit."""
    match schema.get("type"):
        case "object" if schema.get("additionalProperties") is not None:
            name = "maxProperties"
        case "array":
            name = "maxItems"
        case _:
            return 1
    return max(0, schema[name]) if name in schema else None


def _limit(schema: JSON, name: str, least_bytes: int) -> int:
    """Return the limit of the schema, or how many entries a request can have."""
    if name in schema:
        return max(0, int(schema[name]))
    return _INSIDE // least_bytes


def _map_bounds(schema: JSON, others: JSON) -> Bounds | None:
    item = bounds_of(others)
    if item is None:
        return None
    most = _limit(schema, "maxProperties", item.least_bytes + 6)
    return Bounds(most, 2, item, is_map=True)


def _object_bounds(schema: JSON, *, is_resource: bool) -> Bounds:
    fields: dict[str, Bounds] = {}
    least_bytes = 2
    for name, each in fields_of(schema, is_resource=is_resource).items():
        found = bounds_of(each)
        if found is None:
            continue
        if (known := escaped(name)) is not None:
            fields[known] = found
        if name in (schema.get("required") or ()) and each.get("default") is None:
            least_bytes += len(name.encode()) + found.least_bytes + 4
    return Bounds(0, least_bytes, fields=fields)


def _text_bounds(schema: JSON) -> Bounds:
    format_ = schema.get("format", "")
    if format_ in _TIMES:
        return _TIMES[format_]
    if format_ == "byte":
        return Bounds(max(0, schema.get("maxLength", _INSIDE)), 2)
    values: list[Any] = schema.get("enum") or []
    lengths = [len(each.encode()) for each in values if isinstance(each, str)]
    return Bounds(_characters(schema, max(lengths, default=_INSIDE)), 2)


def _characters(schema: JSON, otherwise: int) -> int:
    if "maxLength" not in schema:
        return otherwise
    return max(0, int(schema["maxLength"])) * _BYTES_OF_CHARACTER


# The limits on the estimated costs of the rules of a definition
# (cel_validation.go).

_MOST_OF_RULE: Final = 10_000_000
_MOST: Final = 100_000_000
_SHOWN: Final = 4
_MANY_TIMES: Final = 100
_FEW_TIMES: Final = 1.5
_CONTRIBUTED: Final = (
    "contributed to estimated rule cost total exceeding cost limit for entire "
    "OpenAPIv3 schema"
)
_TOTAL: Final = (
    "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
)
_ADVICE: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where "
    "arrays, maps, and strings are declared)"
)


class _Cost(Struct, frozen=True):
    """The estimated cost of an expression, which `what` names in messages."""

    path: str
    what: str
    cost: int


def validate_costs(schema: JSON, path: str) -> Iterator[statuses.Cause]:
    """Yield the errors for the rules of a valid schema that cost too much."""
    costs = [*_costs(schema, path, 1, is_root=True)]
    for each in costs:
        if each.cost > _MOST_OF_RULE:
            detail = _exceeded(f"estimated {each.what} cost", each.cost, _MOST_OF_RULE)
            yield statuses.forbidden_field(each.path, detail)
    total = sum(each.cost for each in costs)
    if total <= _MOST:
        return
    large = [each for each in costs if each.cost >= _MOST // 100]
    for each in sorted(large, key=lambda each: -each.cost)[:_SHOWN]:
        yield statuses.forbidden_field(each.path, _CONTRIBUTED)
    yield statuses.forbidden_field(path, _exceeded(_TOTAL, total, _MOST))


def _exceeded(what: str, cost: int, most: int) -> str:
    factor = cost / most
    if factor > _MANY_TIMES:
        times = "more than 100x"
    else:
        times = f"{factor:f}x" if factor < _FEW_TIMES else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {times} {_ADVICE}"


def _costs(
    schema: JSON, path: str, times: int | None, *, is_root: bool = False
) -> Iterator[_Cost]:
    """Yield the costs of all rules; their part can be so many times in an object.

    It can be there without a limit if `times` is `None`.
    """
    entries = most_entries(schema)
    inner = None if times is None or entries is None else times * entries
    others, items = schema.get("additionalProperties"), items_of(schema)
    if isinstance(others, dict):
        yield from _costs(others, child(path, "additionalProperties"), inner)
    for name, each in properties_of(schema).items():
        yield from _costs(each, key(child(path, "properties"), name), inner)
    if items is not None:
        yield from _costs(items, child(path, "items"), inner)
    yield from _own_costs(schema, path, times, is_root=is_root)


def _own_costs(
    schema: JSON, path: str, times: int | None, *, is_root: bool
) -> Iterator[_Cost]:
    rules = schema.get(RULES) or ()
    bounds = bounds_of(schema, is_resource=is_root) if rules else None
    if bounds is None:
        return
    if times is None:
        times = MOST_BYTES // (bounds.least_bytes + 1)
    for number, rule in enumerate(rules):
        for name, what, count in (
            ("rule", "rule", times),
            ("messageExpression", "messageExpression", 1),
        ):
            if text := rule.get(name):
                cost = estimated_cost(program_of(text), bounds) * count
                where = child(key(child(path, RULES), str(number)), name)
                yield _Cost(where, what, cost)
