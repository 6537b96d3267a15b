"""The rules that a role aggregates, as tables."""

import pytest

from controller_manager.api.meta import ObjectMeta
from controller_manager.api.rbac.v1 import AggregationRule, ClusterRole, PolicyRule
from controller_manager.api.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
)
from controller_manager.controllers.identity.clusterroleaggregation.controller import (
    AGGREGATED,
    aggregated_rules,
    has_rules,
    selects,
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


SELECTORS: list[tuple[LabelSelector, list[bool]]] = [
    (LabelSelector(match_labels={"a": "1", "b": "2"}), [False, False, True]),
    (expression("a", "In", "2", "1"), [False, True, True]),
    (expression("a", "Exists"), [False, True, True]),
    (expression("a", "NotIn", "1"), [True, True, False]),
    (expression("a", "DoesNotExist"), [True, False, False]),
    (LabelSelector(), [True, True, True]),
    (expression("a", "Like"), [False, False, False]),
]
ROLES = [role("none"), role("one", a="2"), role("two", a="1", b="2")]


@pytest.mark.parametrize(("selector", "selected"), SELECTORS)
def test_a_role_selects_others_by_their_labels(
    selector: LabelSelector, selected: list[bool]
) -> None:
    """A role whose selector cannot be evaluated selects none."""
    unfit = expression("c", "Exists")
    aggregated = ClusterRole(aggregation_rule=AggregationRule((unfit, selector)))
    assert [selects(aggregated, each) for each in ROLES] == selected
    assert list(AGGREGATED.function(aggregated)) == [""]
    assert not list(AGGREGATED.function(ROLES[0]))
