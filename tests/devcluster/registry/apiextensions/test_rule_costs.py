"""The estimated costs of rules in CEL, with the figures of upstream's tests.

Upstream: TestCostEstimation of schema/cel/compilation_test.go.
"""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.cel.estimates import estimated_cost
from controller_manager.devcluster.cel.program import Program
from controller_manager.devcluster.registry.apiextensions.schemas.rules import (
    bounds_of,
    declared_type,
    validate_costs,
)
from tests.devcluster.registry.apiextensions.test_definitions import (
    SCHEMA,
    problems,
    with_field,
)
from tests.devcluster.registry.apiextensions.test_rules import RULES, an_object, ruled

ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where "
    "arrays, maps, and strings are declared)"
)
ALL = "self.all(x, true)"


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
    bounds, own = bounds_of(schema), declared_type(schema)
    assert bounds is not None
    return estimated_cost(Program(rule), {"self": own, "oldSelf": own}, bounds)


@pytest.mark.parametrize(
    ("shape", "kind", "rule", "unlimited", "limit", "wanted"),
    [
        ("list", "number", ALL, 4718591, 10, 32),
        ("list", "string", ALL, 3145727, 20, 62),
        ("list", "boolean", ALL, 1887437, 5, 17),
        ("lists", "number", ALL, 3145727, 100, 302),
        ("list", "pair", ALL, 555128, 50, 152),
        ("map", "number", ALL, 1348169, 10, 32),
        ("map", "string", ALL, 1179647, 3, 11),
        ("map", "boolean", ALL, 943718, 100, 302),
        ("scalar", "string", "self.contains('test')", 314574, 10, 5),
        ("scalar", "string", "self.startsWith('test')", 2, 15, 2),
        ("scalar", "string", "self.endsWith('test')", 2, 30, 2),
        ("scalar", "string", 'size(self + "hello") > size("hello")', 314578, 4, 7),
        ("list", "number", "self[1] == 0.0", 2, 5000, 2),
        ("list", "string", "self[1] == self[1]", 314577, 8, 314577),
        ("list", "number", "self.all(x, self.all(y, true))", None, 10, 352),
        (
            "list",
            "number",
            "self.all(x, self.all(y, self.all(z, true)))",
            None,
            10,
            3552,
        ),
        ("scalar", "string", 'self.matches("x")', 314574, 50, 22),
        ("scalar", "string", '"".matches("(((((((((())))))))))[0-9]")', 7, 10, 7),
        ("scalar", "string", 'self.matches("")', 1, 100, 1),
        (
            "limited map",
            "string",
            "self.all(x, x.contains(self[x]))",
            2752507,
            10,
            72,
        ),
        ("list", "number", "self[3] == 0.0", 2, 0, 2),
        ("map", "number", 'self["x"] == 0.0', 2, 0, 2),
        ("scalar", "string", 'self == "x"', 2, 0, 1),
        ("scalar", "byte", 'self == b"x"', 2, 0, 1),
        ("list", "number", "self.all(x, x == 0.0)", 6291454, 3 << 21, 25165826),
        ("deep", "", 'self.all(x, x["y"].required == "z")', 7340027, 10, 72),
        ("list", "int-or-string", ALL, 4718591, 10, 32),
        ("list", "int-or-string", "self[0] == 5", 3, 10, 3),
        ("list", "boolean", "self[0] == false", 2, 25, 2),
        ("list", "pair", "self[0] == null", 2, 422, 2),
        ("lists", "number", "self[0][0] == -1.0", 3, 51, 3),
        ("maps", "number", "self.all(x, x.y == 25.2)", 6291452, 12, 74),
        ("maps", "number", "self[0].x > 2.0", 4, 3000, 4),
        ("list", "duration", ALL, 2359295, 5, 17),
        ("list", "duration", "self[0].getHours() == 2", 4, 525, 4),
        ("list", "date", ALL, 725936, 15, 47),
        ("list", "date", "self[2].getDayOfMonth() == 13", 4, 42, 4),
        ("list", "date-time", ALL, 428963, 25, 77),
        ("list", "date-time", "self[2].getMinutes() == 45", 4, 99, 4),
        ("map", "int-or-string", ALL, 1348169, 15, 47),
        ("map", "pair", ALL, 428963, 20, 62),
        ("map of lists", "number", ALL, 1179647, 25, 77),
        ("map", "duration", ALL, 1048577, 5, 17),
        ("map", "date", ALL, 524288, 10, 32),
        ("map", "date-time", ALL, 349526, 25, 77),
        ("scalar", "string", "self.find('[0-9]+') == ''", 629147, 10, 11),
        ("limited list", "string", "self.join(' ') == 'aa bb'", 329853068905, 10, 43),
        ("limited list", "string", "self.isSorted() == true", 329854432052, 10, 52),
        (
            "replace",
            "",
            "self.str.replace(self.before, self.after) == 'does not matter'",
            629154,
            4,
            12,
        ),
        ("split", "", "self.str.split(self.separator) == []", 629160, 10, 22),
        ("scalar", "string", "self.lowerAscii() == 'lower!'", 314575, 10, 6),
        ("map", "integer", "oldSelf.size() == self.size()", 5, 10, 5),
        ("map", "date-time", 'self["a"] == self["b"]', 8, 7, 8),
        ("map", "duration", 'self["c"] == self["d"]', 8, 42, 8),
        ("enum", "", "self.contains('A')", 2, 1000, 401),
    ],
)
def test_expressions_cost_what_upstream_estimates(
    shape: str, kind: str, rule: str, unlimited: int | None, limit: int, wanted: int
) -> None:
    """In a schema without a limit, and in one with it."""
    most = cost(built(shape, kind, None), rule)
    assert most == unlimited if unlimited is not None else most > 10_000_000
    assert cost(built(shape, kind, limit), rule) == wanted


@pytest.mark.parametrize(
    ("length", "items"),
    [(16, 909_090), (63, 333_333), (253, 94_339), (1024, 24_154)],
)
def test_the_largest_list_is_as_large_as_upstream(length: int, items: int) -> None:
    """One more item, and the rule costs too much."""
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
    """With those that cost most, and with the total."""
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


@pytest.mark.parametrize(
    ("schema", "rule", "wanted"),
    [
        # A text out of two that the rule itself has is short.
        (scalar("string", 10), "['a', 'bc'].all(x, self.contains(x))", 29),
        (scalar("int-or-string"), "string(self).startsWith('a')", 314575),
        (
            {"type": "object", "properties": {"a-b": scalar("string", 5)}},
            "self.`a-b`.matches('a')",
            5,
        ),
    ],
)
def test_sizes_are_known_through_expressions(
    schema: JSON, rule: str, wanted: int
) -> None:
    """Of constants, of converted values, and of fields with other names."""
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
    """On a list of a few hundred items."""
    assert problems(with_field(ruled(a_list(scalar("integer"), 300), rule))) == []
