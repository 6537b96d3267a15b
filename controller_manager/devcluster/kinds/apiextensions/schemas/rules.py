"""Checks objects by the rules of their schema (schema/cel/validation.go)."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.cel.evaluation import Budget, OutOfBudgetError
from controller_manager.devcluster.cel.program import Program
from controller_manager.devcluster.cel.values import NOTHING, EvaluationError, Maybe
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    forbidden_field,
    required,
    shown,
)

from .correlation import ABSENT, old_field, old_items
from .keywords import RULES, child, items_of, key, properties_of, schema_of_others
from .results import wrong_value
from .rule_values import rule_value

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


class _CallLimitError(Exception):
    """A rule takes more steps than one rule may take; has the cause."""

    def __init__(self, cause: Cause) -> None:
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
        parts = [*properties_of(schema).values()]
        parts += filter(None, (items_of(schema), schema_of_others(schema)))
        found = [self._find(each) for each in parts]
        has_rules = bool(schema.get(RULES)) or any(found)
        if has_rules:
            self._ruled.add(id(schema))
        return has_rules

    def validate(
        self, obj: JSON, causes: list[Cause], old: Any = ABSENT
    ) -> list[Cause]:
        """Return the causes from the rules; validation has found `causes` before.

        Transition rules compare the object with the `old` one. Other rules do not check
        the parts that have not changed.
        """
        if id(self._schema) not in self._ruled:
            return []
        if any(each.reason in _BLOCKING for each in causes):
            return [wrong_value("", "null", _NOT_CHECKED)]
        budget, found = Budget(_MOST_STEPS), list[Cause]()
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
    ) -> Iterator[Cause]:
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

    def causes(self, value: Any, old: Any, total: Budget) -> Iterator[Cause]:
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

    def _causes(self, value: Any, old: Any, budget: Budget) -> Iterator[Cause]:
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

    def _failed(self, names: JSON, budget: Budget) -> Cause:
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

    def _cause(self, detail: str) -> Cause:
        path = self._path
        if field := self._rule.get("fieldPath", "").strip():
            path = child(path, field.removeprefix(".")) if path else field[1:]
        type_ = self._schema.get("type", "")
        match self._rule.get("reason"):
            case "FieldValueForbidden":
                return forbidden_field(path or "<nil>", detail)
            case "FieldValueRequired":
                return required(path or "<nil>", detail)
            case "FieldValueDuplicate":
                return duplicate(path or "<nil>", shown(type_))
        return wrong_value(path, type_, detail)
