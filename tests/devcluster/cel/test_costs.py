"""Expressions that would run for long, or fill the memory, are ended."""

import pytest

from controller_manager.devcluster.cel.evaluation import Budget, OutOfBudgetError
from controller_manager.devcluster.cel.program import Program
from controller_manager.devcluster.cel.values import Value

STEPS = 30_000
OBJECT = {"items": [*range(5000)], "text": "a" * 50_000, "map": {"a": "b"}}


def grown(first: str, step: str, depth: int) -> str:
    """Return an expression that goes from a value to the next one, `depth` times.

    In `step`, P is the value before.
    """
    body = f"v{depth}"
    for number in range(depth, 0, -1):
        value = step.replace("P", f"v{number - 1}")
        body = f"cel.bind(v{number}, {value}, {body})"
    return f"cel.bind(v0, {first}, {body})"


DEEP = grown("[1]", "[P, P]", 30)


@pytest.mark.parametrize(
    "expression",
    [
        grown("'aaaaaaaa'", "P + P", 40),
        grown("[1]", "P + P", 40),
        f"cel.bind(x, {DEEP}, x == {DEEP})",
        f"'%s'.format([{DEEP}])",
        grown("'aaaaaaaa'", "P.replace('a', P)", 8),
        grown("'aaaaaaaa'", "[1, 2, 3, 4].map(i, P).join(P)", 20),
        grown("'aaaaaaaa'", "'%s%s%s%s'.format([P, P, P, P])", 20),
        "o.items.all(i, o.items == o.items)",
        "o.items.all(i, i in o.items)",
        "o.items.all(i, o.items.sum() > 0)",
        "o.items.all(i, o.items.indexOf(i) >= 0)",
        "o.items.all(i, !o.text.contains('b'))",
        "o.items.all(i, o.text.split('').size() > 0)",
        "o.text.matches('(a?){100}(a|b|ab)*c$')",
        "sets.contains(o.items, o.items)",
    ],
)
def test_large_values_cost_steps(expression: str) -> None:
    with pytest.raises(OutOfBudgetError):
        Program(expression).evaluate({"o": OBJECT}, Budget(STEPS))


@pytest.mark.parametrize(
    ("expression", "value", "steps"),
    [
        ("1 + 2", 3, 3),
        ("o.map == {'a': 'b'}", True, 7),
        ("'abc'.startsWith('a')", True, 3),
        ("size(o.text)", 50_000, 3),
        ("o.text.size() > 0 && 'a' in o.map", True, 10),
    ],
)
def test_small_values_cost_a_step_each(
    expression: str, value: Value, steps: int
) -> None:
    """And so does what takes the same time for values of each size."""
    budget = Budget(STEPS)
    assert Program(expression).evaluate({"o": OBJECT}, budget) == value
    assert STEPS - budget.left == steps


def test_steps_are_taken_from_the_total_too() -> None:
    total = Budget(5)
    assert Program("1 + 2").evaluate({}, Budget(100, total)) == 3
    with pytest.raises(OutOfBudgetError):
        Program("1 + 2").evaluate({}, Budget(100, total))
