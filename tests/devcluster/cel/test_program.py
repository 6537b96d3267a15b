"""The values of expressions, as cel-go and the API server compute them."""

import time
from typing import Any

import pytest

from controller_manager.cel.syntax import SyntaxProblem
from controller_manager.devcluster.cel.evaluation import Budget, OutOfBudgetError
from controller_manager.devcluster.cel.program import Program
from controller_manager.devcluster.cel.values import EvaluationError, UInt
from tests.devcluster.rows import rows

SELF: dict[str, Any] = {
    "n": 3,
    "d": 2.5,
    "text": "abc",
    "flag": True,
    "none": None,
    "list": [3, 1, 2],
    "names": ["a", "b"],
    "map": {"a": 1, "b": 2},
    "items": [{"name": "x", "port": 80}, {"name": "y"}],
}


def value(text: str) -> Any:
    """Return the value of an expression, of which nothing is undeclared."""
    program = Program(text)
    assert program.problems(frozenset(("self",))) == []
    return program.evaluate({"self": SELF}, Budget(10_000))


@rows("text")
def test_an_expression_is_true(text: str) -> None:
    assert value(text) is True


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("self.absent", "no such key: absent"),
        ("self.list[5]", "index out of bounds: 5"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("1 + 1.0", "no such overload"),
        ("1 + true", "no such overload"),
        ("'a' < 1", "no such overload"),
        ("!1", "no such overload"),
        ("1 ? 2 : 3", "no such overload"),
        ("self.n.size()", "no such overload"),
        ("self.text.startsWith(1)", "no such overload"),
        ("self.text.startsWith()", "no such overload"),
        ("self.n.all(x, true)", "no such overload"),
        ("self.list.all(x, x)", "no such overload"),
        ("false || self.absent", "no such key: absent"),
        ("optional.none().value()", "optional.none() dereference"),
        ("[].max()", "max called on empty list"),
        ("'a'.matches('(')", "error parsing regexp: missing closing ): `(`"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("bool('x')", "type conversion error from 'x' to 'bool'"),
        ("timestamp('9999-12-31T23:59:59-00:01')", "timestamp overflow"),
        ("timestamp('0001-01-01T00:00:00+00:01')", "timestamp overflow"),
        ("timestamp('0000-12-31T23:59:59Z')", "timestamp overflow"),
        ("timestamp(253402300800)", "timestamp overflow"),
        ("timestamp(-62135596801)", "timestamp overflow"),
        ("timestamp(9223372036854775807)", "timestamp overflow"),
        ("duration('x')", 'time: invalid duration "x"'),
    ],
)
def test_an_expression_without_a_value_says_why(text: str, problem: str) -> None:
    with pytest.raises(EvaluationError) as error:
        value(text)
    assert str(error.value) == problem


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("self.a && frob(self)", ["undeclared reference to 'frob' (in container '')"]),
        ("self.frob()", ["undeclared reference to 'frob' (in container '')"]),
        ("other", ["undeclared reference to 'other' (in container '')"]),
        ("self.all(x, x > y)", ["undeclared reference to 'y' (in container '')"]),
        ("cel.bind(x, y, x)", ["undeclared reference to 'y' (in container '')"]),
        ("self.all(1, true)", ["argument must be a simple name"]),
        ("has(self)", ["invalid argument to has() macro"]),
        ("a.M{f: 1}", ["undeclared reference to 'a.M' (in container '')"]),
    ],
)
def test_what_nothing_stands_for_is_found(text: str, problems: list[str]) -> None:
    found = Program(text).problems(frozenset(("self",)))
    assert [each.message for each in found] == problems


def test_a_program_knows_the_names_that_it_uses() -> None:
    program = Program("self.all(x, x in oldSelf)")
    assert program.uses("oldSelf")
    assert not program.uses("other")


@pytest.mark.parametrize("text", ["1 +", "'a", "99999999999999999999", "'\\q'"])
def test_a_text_that_is_no_expression_is_refused(text: str) -> None:
    """When it is read."""
    with pytest.raises(SyntaxProblem):
        Program(text)


def test_an_expression_ends_when_its_budget_does() -> None:
    loop = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    text = "true"
    for name in "abcdefgh":
        text = f"{loop}.all({name}, {text})"
    start = time.perf_counter()
    with pytest.raises(OutOfBudgetError):
        Program(text).evaluate({}, Budget(10_000))
    assert time.perf_counter() - start < 5


def outcome(text: str) -> str:
    """Return the value of an expression, or why it has none."""
    try:
        return str(Program(text).evaluate({}, Budget(10_000)))
    except (EvaluationError, SyntaxProblem) as error:
        return str(error)


@pytest.mark.parametrize("depth", [10, 500, 5000])
def test_an_expression_that_is_nested_deeply_does_no_harm(depth: int) -> None:
    """It has its value, or it is refused when it is read or evaluated."""
    too_deep = "the expression is nested too deeply"
    assert outcome(f"{'!' * depth}true") in ("True", too_deep)
    assert outcome(f"{'(' * depth}true{')' * depth}") in ("True", too_deep)


def test_a_uint_stays_one() -> None:
    found = value("5u + 1u")
    assert (type(found), found) == (UInt, 6)
