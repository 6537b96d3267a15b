"""The rules that a role aggregates, as tables."""

from typing import Any

import pytest

from controller_manager.api.meta import ObjectMeta
from controller_manager.api.rbac.v1 import AggregationRule, ClusterRole, PolicyRule
from controller_manager.api.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    compile_selector,
)
from controller_manager.controllers.identity.clusterroleaggregation.controller import (
    ANY,
    BY_WANTED_LABEL,
    aggregated_rules,
    has_rules,
    label_entries,
    selector_entries,
)

PODS = PolicyRule(verbs=("get",), api_groups=("",), resources=("pods",))
NODES = PolicyRule(verbs=("get",), api_groups=("",), resources=("nodes",))
HEALTH = PolicyRule(verbs=("get",), non_resource_urls=("/healthz",))


def role(name: str, *rules: PolicyRule, **labels: str) -> ClusterRole:
    """Return a role with rules and labels."""
    return ClusterRole(
        metadata=ObjectMeta(name=name, labels=labels or None), rules=rules
    )


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    """Return a selector with one expression."""
    requirement = LabelSelectorRequirement(key, operator, values or None)
    return LabelSelector(match_expressions=(requirement,))


ALL = role("all")

GATHERED: dict[str, tuple[list[list[ClusterRole]], tuple[PolicyRule, ...]]] = {
    "nothing is selected": ([[]], ()),
    "the order is that of the names": (
        [[role("b", PODS), role("a", NODES)]],
        (NODES, PODS),
    ),
    "selectors come one after the other": (
        [[role("b", PODS)], [role("a", NODES), role("b", PODS)]],
        (PODS, NODES),
    ),
    "equal rules are listed once": (
        [[role("a", PODS, HEALTH), role("b", PODS)]],
        (PODS, HEALTH),
    ),
    "an empty list is as good as none": (
        [
            [
                role("a", PODS),
                role("b", PolicyRule(("get",), ("",), ("pods",), (), ())),
            ]
        ],
        (PODS,),
    ),
    "the order of verbs counts": (
        [
            [
                role("a", PolicyRule(verbs=("get", "list"))),
                role("b", PolicyRule(verbs=("list", "get"))),
            ]
        ],
        (PolicyRule(verbs=("get", "list")), PolicyRule(verbs=("list", "get"))),
    ),
    "a role does not gather its own rules": (
        [[role("all", PODS), role("b", NODES)]],
        (NODES,),
    ),
}


@pytest.mark.parametrize("name", GATHERED)
def test_rules_are_aggregated(name: str) -> None:
    """By selector, by name, each once."""
    selected, expected = GATHERED[name]
    assert aggregated_rules(ALL, selected) == expected


def test_rules_are_compared_in_their_order() -> None:
    """An empty list and none are the same."""
    empty = PolicyRule(("get",), (), (), (), ("/healthz",))
    assert has_rules(role("a", PODS, empty), (PODS, HEALTH))
    assert not has_rules(role("a", HEALTH, PODS), (PODS, HEALTH))
    assert has_rules(ClusterRole(), ())
    assert not has_rules(role("a", PODS), ())


ENTRIES: list[tuple[LabelSelector, list[str]]] = [
    (LabelSelector(match_labels={"a": "1", "b": "2"}), ["a=1"]),
    (expression("a", "In", "2", "1"), ["a=1", "a=2"]),
    (expression("a", "Exists"), ["a"]),
    (expression("a", "NotIn", "1"), [ANY]),
    (expression("a", "DoesNotExist"), [ANY]),
    (LabelSelector(), [ANY]),
]


@pytest.mark.parametrize(("selector", "entries"), ENTRIES)
def test_what_a_selector_selects_has_one_of_its_entries(
    selector: LabelSelector, entries: list[str]
) -> None:
    """So both directions are found by an index."""
    compiled = compile_selector(selector)
    assert selector_entries(compiled) == entries
    labels: list[dict[str, Any]] = [{}, {"a": "1"}, {"a": "2"}, {"a": "1", "b": "2"}]
    for each in labels:
        if compiled.matches(each):
            assert {*label_entries(role("x", **each)), ANY} & {*entries}


def test_a_role_is_indexed_by_all_its_selectors() -> None:
    """A role whose selectors cannot be evaluated is indexed by none."""
    selectors = tuple(each for each, _ in ENTRIES[:3])
    aggregated = ClusterRole(aggregation_rule=AggregationRule(selectors))
    assert set(BY_WANTED_LABEL.function(aggregated)) == {"a=1", "a=2", "a"}
    wrong = ClusterRole(aggregation_rule=AggregationRule((expression("a", "Like"),)))
    assert set(BY_WANTED_LABEL.function(wrong)) == set()
