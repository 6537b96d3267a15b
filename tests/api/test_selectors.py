"""Selectors match as upstream's do."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    Requirement,
    Selector,
    SelectorError,
    as_go_prints,
    compile_selector,
    format_selector,
    parse_selector,
)

LABELS = {"app": "web", "tier": "front", "weight": "10"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app=api", False),
        ("app!=api", True),
        ("absent!=x", True),
        ("app in (web,api)", True),
        ("app in (api)", False),
        ("app notin (api)", True),
        ("absent notin (api)", True),
        ("app notin (web)", False),
        ("tier", True),
        ("absent", False),
        ("!absent", True),
        ("!tier", False),
        ("weight>9", True),
        ("weight>10", False),
        ("weight<11", True),
        ("app>1", False),
        ("app=web,tier=front", True),
        ("app=web,tier=back", False),
        ("app=", False),
        ("  app = web , tier in ( front , back ) ", True),
    ],
)
def test_a_query_selects_by_every_operator(text: str, matches: bool) -> None:
    """The string form of a selector has the meaning that an API server gives it."""
    assert parse_selector(text).matches(LABELS) is matches


REQUIREMENT = "unable to parse requirement: "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a in b", f"{REQUIREMENT}found 'b' expected: '('"),
        ("a,", "found '', expected: identifier after ','"),
        ("a>x", f"{REQUIREMENT}for 'a>x' the value must be an integer"),
        ("-a", f"{REQUIREMENT}found '-a', expected: identifier"),
        ("a=-b", f"{REQUIREMENT}values must be valid label values, not '-b'"),
    ],
)
def test_a_malformed_query_is_refused_with_the_culprit(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("operator", "values", "matches"),
    [
        ("In", ("web",), True),
        ("NotIn", ("web",), False),
        ("Exists", (), True),
        ("DoesNotExist", (), False),
    ],
)
def test_an_expression_selects_by_its_operator(
    operator: str, values: tuple[str, ...], matches: bool
) -> None:
    expression = LabelSelectorRequirement(key="app", operator=operator, values=values)
    selector = LabelSelector(match_expressions=(expression,))
    assert compile_selector(selector).matches(LABELS) is matches


def test_an_absent_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not compile_selector(None).matches({})
    assert compile_selector(LabelSelector()).matches({})
    assert compile_selector(LabelSelector()).is_empty


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            LabelSelectorRequirement(key="a", operator="Near", values=("b",)),
            "'Near' is not a valid label selector operator",
        ),
        (
            LabelSelectorRequirement(key="a", operator="In"),
            "selector expression on 'a': operator In needs at least one value",
        ),
        (
            LabelSelectorRequirement(key="a", operator="Exists", values=("b",)),
            "selector expression on 'a': operator Exists takes no values",
        ),
        (
            LabelSelectorRequirement(operator="Exists"),
            "a selector expression has no key",
        ),
    ],
)
def test_an_unusable_expression_is_named(
    expression: LabelSelectorRequirement, message: str
) -> None:
    """A controller can show its user the invalid part."""
    with pytest.raises(SelectorError) as caught:
        compile_selector(LabelSelector(match_expressions=(expression,)))
    assert str(caught.value) == message


def test_a_selector_is_formatted_with_its_keys_in_order() -> None:
    """This is the form that kubectl and the scale subresource show."""
    selector = LabelSelector(
        match_labels={"b": "1", "a": "2"},
        match_expressions=(
            LabelSelectorRequirement(key="c", operator="In", values=("y", "x")),
            LabelSelectorRequirement(key="d", operator="DoesNotExist"),
        ),
    )
    assert format_selector(selector) == "a=2,b=1,c in (x,y),!d"


names = st.sampled_from(["a", "b", "c"])
label_sets = st.dictionaries(names, names, max_size=3)


@given(labels=label_sets, wanted=label_sets)
def test_a_formatted_selector_parses_to_the_same_meaning(
    labels: dict[str, str], wanted: dict[str, str]
) -> None:
    typed = compile_selector(LabelSelector(match_labels=wanted))
    parsed = parse_selector(format_selector(LabelSelector(match_labels=wanted)))
    assert typed.matches(labels) == parsed.matches(labels)


@given(labels=label_sets, key=names, values=st.frozensets(names, min_size=1))
def test_in_and_not_in_are_opposites(
    labels: dict[str, str], key: str, values: frozenset[str]
) -> None:
    """So are Exists and DoesNotExist."""
    inside = Selector(requirements=(Requirement(key, "In", values),))
    outside = Selector(requirements=(Requirement(key, "NotIn", values),))
    assert inside.matches(labels) != outside.matches(labels)
    present = Selector(requirements=(Requirement(key, "Exists"),))
    absent = Selector(requirements=(Requirement(key, "DoesNotExist"),))
    assert present.matches(labels) != absent.matches(labels)


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (
            {"matchLabels": {"b": "2", "a": "1"}},
            (
                "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},"
                "MatchExpressions:[]LabelSelectorRequirement{},}"
            ),
        ),
        (
            {
                "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["x", "y"]},
                    {"key": "b", "operator": "Exists"},
                ]
            },
            (
                "&LabelSelector{MatchLabels:map[string]string{},"
                "MatchExpressions:[]LabelSelectorRequirement{"
                "LabelSelectorRequirement{Key:a,Operator:In,Values:[x y],},"
                "LabelSelectorRequirement{Key:b,Operator:Exists,Values:[],},},}"
            ),
        ),
        (None, "nil"),
    ],
)
def test_a_selector_reads_as_go_prints_it(selector: JSON | None, text: str) -> None:
    found = selector and msgspec.convert(selector, LabelSelector)
    assert as_go_prints(found or None) == text
