"""Decides about a write by one policy (policy/validating/validator.go)."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.admission.expressions import (
    MOST_STEPS,
    OUT_OF_BUDGET,
    Names,
    evaluated,
)
from controller_manager.devcluster.admission.match_conditions import (
    ConditionError,
    hold,
)
from controller_manager.devcluster.cel.evaluation import Budget, OutOfBudgetError
from controller_manager.devcluster.cel.values import EvaluationError, Value, type_of

from .variables import Variables

_MOST_CHARACTERS: Final = 5 << 10


class Denial(Struct, frozen=True):
    """The reason of a policy's refusal; empty if the policy cannot be evaluated."""

    message: str
    reason: str = ""


def denials(spec: JSON, names: Names, total: Budget) -> Iterator[Denial]:
    """Yield why a policy with this spec refuses a write, expression by expression.

    It takes its steps from the `total` of the write, up to the limit of one policy.
    """
    try:
        if not hold(spec.get("matchConditions") or (), names):
            return
    except ConditionError as error:
        yield Denial(str(error))
        return
    budget = Budget(MOST_STEPS, total)
    variables = Variables(spec.get("variables") or (), names, budget)
    known = names.having(variables=lambda: variables)
    try:
        for validation in spec.get("validations") or ():
            yield from _checked(validation, known, budget)
        for annotation in spec.get("auditAnnotations") or ():
            yield from _annotated(annotation, known, budget)
    except OutOfBudgetError:
        yield Denial(OUT_OF_BUDGET)


def _checked(
    validation: JSON, names: Mapping[str, Value], budget: Budget
) -> Iterator[Denial]:
    try:
        if evaluated(validation["expression"], names, budget) is True:
            return
    except EvaluationError as error:
        yield Denial(str(error))
        return
    yield Denial(
        _message(validation, names, budget), validation.get("reason", "Invalid")
    )


def _message(validation: JSON, names: Mapping[str, Value], budget: Budget) -> str:
    """Return the message of a validation that is false."""
    own = _own_message(validation.get("messageExpression", ""), names, budget)
    given = validation.get("message", "").strip()
    return own or given or f"failed expression: {validation['expression'].strip()}"


def _own_message(expression: str, names: Mapping[str, Value], budget: Budget) -> str:
    """Return the value of a messageExpression, "" if it is unusable."""
    if not expression:
        return ""
    try:
        found = evaluated(expression, names, budget)
    except EvaluationError:
        return ""
    if not isinstance(found, str):
        return ""
    text = found.strip()
    return "" if "\n" in text or len(text) > _MOST_CHARACTERS else text


def _annotated(
    annotation: JSON, names: Mapping[str, Value], budget: Budget
) -> Iterator[Denial]:
    """Evaluate an audit annotation; only its errors have an effect."""
    expression = annotation["valueExpression"]
    try:
        found = evaluated(expression, names, budget)
    except EvaluationError as error:
        yield Denial(str(error))
        return
    if not isinstance(found, str) and found is not None:
        yield Denial(
            f"valueExpression '{expression}' resulted in unsupported return type: "
            f"{type_of(found)}. Return type must be either string or null."
        )
