"""The estimated costs of rules in CEL, with the figures of upstream's tests.

Upstream: TestCostEstimation of schema/cel/compilation_test.go.
"""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.cel.program import Program, estimated_cost
from controller_manager.devcluster.registry.apiextensions.schemas.rules import (
    bounds_of,
    validate_costs,
)
from tests.devcluster.registry.apiextensions.test_definitions import (
    SCHEMA,
    problems,
    with_field,
)
from tests.devcluster.registry.apiextensions.test_rules import RULES, an_object, ruled
from tests.devcluster.rows import rows

ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where "
    "arrays, maps, and strings are declared)"
)


def limited(name: str, limit: int | None) -> JSON:
    return {} if limit is None else {name: limit}


def scalar(kind: str, limit: int | None = None) -> JSON:
    if kind == "int-or-string":
        return {"x-kubernetes-int-or-string": True}
    if kind in ("date", "date-time", "duration", "byte"):
        return {"type": "string", "format": kind, **limited("maxLength", limit)}
    bound = limited("maxLength", limit) if kind == "string" else {}
    return {"type": kind, **bound}


def a_list(items: JSON, limit: int | None = None) -> JSON:
    return {"type": "array", "items": items, **limited("maxItems", limit)}


def a_map(values: JSON, limit: int | None = None) -> JSON:
    bound = limited("maxProperties", limit)
    return {"type": "object", "additionalProperties": values, **bound}


PAIR: JSON = {
    **an_object(required=scalar("string"), optional=scalar("string")),
    "required": ["required"],
}


def built(shape: str, kind: str, limit: int | None) -> JSON:
    """Return the schema of a case, with a limit or without."""
    match shape:
        case "scalar":
            return scalar(kind, limit)
        case "list":
            return a_list(PAIR if kind == "pair" else scalar(kind), limit)
        case "map":
            return a_map(PAIR if kind == "pair" else scalar(kind), limit)
        case "lists":
            return a_list(a_list(scalar(kind)), limit)
        case "maps":
            return a_list(a_map(scalar(kind)), limit)
        case "limited map":
            return a_map(scalar(kind, limit), limit)
        case "limited list":
            return a_list(scalar(kind, limit), limit)
        case "map of lists":
            return a_map(a_list(scalar(kind)), limit)
        case "deep":
            return a_list(a_map({**PAIR, **limited("maxProperties", limit)}), limit)
        case "replace":
            text, two, four = (scalar("string", each) for each in (limit, 2, 4))
            return an_object(str=text, before=two, after=four)
        case "split":
            text = scalar("string", limit)
            return an_object(str=text, separator=text)
    values = ["A", "B", "C", "LongValue"]
    return {**scalar("string", limit), "enum": values}


def cost(schema: JSON, rule: str) -> int:
    bounds = bounds_of(schema)
    assert bounds is not None
    return estimated_cost(Program(rule), bounds)


@rows("shape", "kind", "rule", "unlimited", "limit", "wanted")
def test_expressions_cost_what_upstream_estimates(
    shape: str, kind: str, rule: str, unlimited: int | None, limit: int, wanted: int
) -> None:
    most = cost(built(shape, kind, None), rule)
    assert most == unlimited if unlimited is not None else most > 10_000_000
    assert cost(built(shape, kind, limit), rule) == wanted


@pytest.mark.parametrize(
    ("length", "items"), [(16, 909_090), (63, 333_333), (253, 94_339), (1024, 24_154)]
)
def test_the_largest_list_is_as_large_as_upstream(length: int, items: int) -> None:
    rule = "self.all(x, x.contains('gpu'))"
    most, more = (a_list(scalar("string", length), items + each) for each in (0, 1))
    assert [*validate_costs(an_object(x=ruled(most, rule)), "s")] == []
    (cause,) = validate_costs(an_object(x=ruled(more, rule)), "s")
    assert "estimated rule cost exceeds budget by factor of 1.0000" in str(cause)


def test_a_rule_that_costs_too_much_is_refused() -> None:
    """With its factor; the rule of a part costs as often as the part is there."""
    loops = "self.all(x, self.all(y, x == y))"
    numbers = a_list(scalar("number"), 2000)
    assert problems(with_field(ruled(numbers, loops))) == [
        (
            f"{SCHEMA}.properties[x].{RULES}[0].rule: Forbidden: estimated rule cost "
            f"exceeds budget by factor of 2.0x {ADVICE}"
        )
    ]
    items = ruled(scalar("string", 100), "self.contains('a')")
    assert problems(with_field(a_list(items, 200_000))) == []
    (text,) = problems(with_field(a_list(items, 1_000_000)))
    assert text == (
        f"{SCHEMA}.properties[x].items.{RULES}[0].rule: Forbidden: estimated rule cost "
        f"exceeds budget by factor of 4.1x {ADVICE}"
    )


def test_rules_that_cost_too_much_together_are_refused() -> None:
    schema = ruled(a_list(scalar("string")), "self.all(x, x.contains('gpu'))")
    where = f"{SCHEMA}.properties[x].{RULES}[0].rule: Forbidden: "
    assert problems(with_field(schema)) == [
        (
            f"{where}estimated rule cost exceeds budget by factor of more than 100x "
            f"{ADVICE}"
        ),
        (
            f"{where}contributed to estimated rule cost total exceeding cost limit for "
            "entire OpenAPIv3 schema"
        ),
        (
            f"{SCHEMA}: Forbidden: {RULES} estimated rule cost total for entire "
            f"OpenAPIv3 schema exceeds budget by factor of more than 100x {ADVICE}"
        ),
    ]


def test_a_message_that_costs_too_much_is_refused() -> None:
    """A number as a text has no bound; a format has one."""
    rule: dict[str, Any] = {"rule": "self > 1"}
    long = {**rule, "messageExpression": "'x ' + string(self)"}
    first = problems(with_field(ruled(scalar("integer"), long)))[0]
    assert first == (
        f"{SCHEMA}.properties[x].{RULES}[0].messageExpression: Forbidden: estimated "
        f"messageExpression cost exceeds budget by factor of more than 100x {ADVICE}"
    )
    short = {**rule, "messageExpression": "'%d'.format([self])"}
    assert problems(with_field(ruled(scalar("integer"), short))) == []


@rows("schema", "rule", "wanted")
def test_sizes_are_known_through_expressions(
    schema: JSON, rule: str, wanted: int
) -> None:
    assert cost(schema, rule) == wanted


@pytest.mark.parametrize(
    "rule",
    [
        "self.filter(x, x > 1).map(x, x + 1).exists_one(x, x == 2)",
        "cel.bind(most, self.max(), self.exists(x, x == most))",
        "[1, 2].all(x, x in self) ? size(self) < 3 : {'a': 1}.a == 1",
        "self.all(i, x, i < x) || self.transformList(i, x, x).size() == 2",
        " || ".join(["self.size() == 1"] * 500),
    ],
)
def test_ordinary_rules_are_accepted(rule: str) -> None:
    assert problems(with_field(ruled(a_list(scalar("integer"), 300), rule))) == []
