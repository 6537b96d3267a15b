"""Roles gather rules on a cluster in memory, on virtual time."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.rbac.v1 import (
    CLUSTER_ROLES,
    AggregationRule,
    ClusterRole,
    PolicyRule,
)
from controller_manager.api.selectors import LabelSelector, LabelSelectorRequirement
from controller_manager.client.rest.client import PatchType
from controller_manager.controllers.identity.clusterroleaggregation.controller import (
    AGGREGATED,
    aggregated_rules,
    has_rules,
    selects,
)
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.hands import Hands
from tests.controllers.scenarios import Scenario, scenarios


def config() -> Config:
    return make_config(
        controllers=("clusterrole-aggregation-controller",),
        use_service_account_credentials=True,
    )


class Roles(Hands):
    def role(self, name: str, label: str, *rules: JSON) -> None:
        metadata = {"labels": {label: "true"}}
        self.put(CLUSTER_ROLES, name, metadata=metadata, rules=list(rules))

    def gathering(self, name: str, label: str, labels: str = "") -> None:
        """Add a role that gathers the rules of the roles with a label."""
        metadata = {"labels": {labels: "true"} if labels else {}}
        selectors = [{"matchLabels": {label: "true"}}]
        rule = {"clusterRoleSelectors": selectors}
        self.put(CLUSTER_ROLES, name, metadata=metadata, aggregationRule=rule)

    async def change(self, name: str, **parts: Any) -> None:
        await self.client.patch(CLUSTER_ROLES, "", name, parts, PatchType.MERGE)

    def rules(self, name: str) -> list[JSON]:
        return self.stored(CLUSTER_ROLES, name).get("rules") or []

    def applied(self, name: str) -> JSON:
        """Return the fields that the controller has applied."""
        for each in self.stored(CLUSTER_ROLES, name)["metadata"]["managedFields"]:
            manager = each["manager"], each["operation"]
            if manager == ("clusterrole-aggregation-controller", "Apply"):
                return dict(each["fieldsV1"])
        return {}


@pytest.mark.looptime
@scenarios("identity/clusterroleaggregation")
async def test_roles_gather_rules(scenario: Scenario) -> None:
    await scenario.play(Roles, config)


PODS = PolicyRule(verbs=("get",), api_groups=("",), resources=("pods",))
NODES = PolicyRule(verbs=("get",), api_groups=("",), resources=("nodes",))
HEALTH = PolicyRule(verbs=("get",), non_resource_urls=("/healthz",))


def role(name: str, *rules: PolicyRule, **labels: str) -> ClusterRole:
    return ClusterRole(
        metadata=ObjectMeta(name=name, labels=labels or None), rules=rules
    )


def expression(key: str, operator: str, *values: str) -> LabelSelector:
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
        [[role("a", PODS), role("b", PolicyRule(("get",), ("",), ("pods",), (), ()))]],
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
    selected, expected = GATHERED[name]
    assert aggregated_rules(ALL, selected) == expected


def test_rules_are_compared_in_their_order() -> None:
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
def test_roles_select_by_labels(selector: LabelSelector, selected: list[bool]) -> None:
    unfit = expression("c", "Exists")
    aggregated = ClusterRole(aggregation_rule=AggregationRule((unfit, selector)))
    assert [selects(aggregated, each) for each in ROLES] == selected
    assert list(AGGREGATED.function(aggregated)) == [""]
    assert not list(AGGREGATED.function(ROLES[0]))
