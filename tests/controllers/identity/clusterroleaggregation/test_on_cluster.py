"""Roles gather rules on a cluster in memory, on virtual time."""

import asyncio
import json
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
from controller_manager.client.rest.client import Client, PatchType
from controller_manager.client.rest.transport import Request
from controller_manager.controllers.identity.clusterroleaggregation.controller import (
    AGGREGATED,
    aggregated_rules,
    has_rules,
    selects,
)
from tests.clusters import make_config
from tests.controllers.hands import Hands
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime

API = "rbac.authorization.k8s.io/v1"
CONFIG = make_config(controllers=("clusterrole-aggregation-controller",))


def rule(resource: str, *verbs: str) -> JSON:
    return {"verbs": [*verbs] or ["get"], "apiGroups": [""], "resources": [resource]}


def selecting(*labels: str) -> JSON:
    selectors = [{"matchLabels": {each: "true"}} for each in labels]
    return {"clusterRoleSelectors": selectors}


def add(cluster: Hands, name: str, *labels: str, **parts: Any) -> None:
    metadata = {"name": name, "labels": dict.fromkeys(labels, "true")}
    cluster.add("ClusterRole", name, API, metadata=metadata, **parts)


async def rules(client: Client, name: str) -> list[JSON]:
    role = await client.get_json(CLUSTER_ROLES, "", name)
    found: list[JSON] = role["rules"] or []
    return found


async def patch(client: Client, name: str, body: JSON) -> None:
    await client.patch(CLUSTER_ROLES, "", name, body, PatchType.MERGE)
    await asyncio.sleep(1)


async def test_rules_pass_through_a_chain_of_roles(cluster: Hands) -> None:
    add(cluster, "admin", aggregationRule=selecting("to-admin"))
    add(cluster, "edit", "to-admin", aggregationRule=selecting("to-edit"))
    add(cluster, "view", "to-edit", rules=[rule("pods")])
    health = {"verbs": ["get"], "nonResourceURLs": ["/healthz"]}
    add(cluster, "probe", "to-admin", rules=[health])
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        assert await rules(cluster.client, "admin") == [rule("pods"), health]
        await patch(cluster.client, "view", {"rules": [rule("nodes")]})
        assert await rules(cluster.client, "edit") == [rule("nodes")]
        assert await rules(cluster.client, "admin") == [rule("nodes"), health]
        cluster.remove(CLUSTER_ROLES, "view")
        await asyncio.sleep(1)
        assert await rules(cluster.client, "edit") == []
        assert await rules(cluster.client, "admin") == [health]
    paths = [each.path.rpartition("/")[2] for each in recording.writes]
    assert paths.count("edit") == 3
    assert paths.count("admin") in (3, 4)


async def test_the_write_is_upstreams(cluster: Hands) -> None:
    add(cluster, "all", aggregationRule=selecting("a"))
    add(cluster, "one", "a", rules=[rule("pods")])
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        role = await cluster.client.get_json(CLUSTER_ROLES, "", "all")
    (write,) = recording.writes
    assert (write.method, json.loads(write.body)) == (
        "PATCH",
        {
            "apiVersion": API,
            "kind": "ClusterRole",
            "metadata": {"name": "all", "uid": role["metadata"]["uid"]},
            "rules": [rule("pods")],
        },
    )
    owners = {
        (each["manager"], each["operation"]): each["fieldsV1"]
        for each in role["metadata"]["managedFields"]
    }
    applied = owners["clusterrole-aggregation-controller", "Apply"]
    assert applied == {"f:rules": {}}


async def test_rules_by_hand_are_overwritten_or_stay(cluster: Hands) -> None:
    """They stay in a role that selects no role; aggregated rules are removed."""
    add(cluster, "all", aggregationRule=selecting("a"))
    add(cluster, "idle", aggregationRule=selecting("none"), rules=[rule("by-hand")])
    add(cluster, "one", "a", rules=[rule("pods")])
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        await patch(cluster.client, "all", {"rules": [rule("by-hand")]})
        assert await rules(cluster.client, "all") == [rule("pods")]
        await patch(cluster.client, "one", {"metadata": {"labels": {"a": None}}})
        assert await rules(cluster.client, "all") == []
        assert await rules(cluster.client, "idle") == [rule("by-hand")]
        writes = len(recording.writes)
        await patch(cluster.client, "one", {"rules": [rule("secrets")]})
        await asyncio.sleep(600)
        assert len(recording.writes) == writes


async def test_a_selector_may_have_expressions(cluster: Hands) -> None:
    expressions = [{"key": "kept", "operator": "DoesNotExist"}]
    selector = {"clusterRoleSelectors": [{"matchExpressions": expressions}]}
    add(cluster, "all", aggregationRule=selector)
    add(cluster, "one", rules=[rule("pods")])
    add(cluster, "two", "kept", rules=[rule("nodes")])
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        assert await rules(cluster.client, "all") == [rule("pods")]
        await patch(cluster.client, "two", {"metadata": {"labels": {"kept": None}}})
        assert await rules(cluster.client, "all") == [rule("pods"), rule("nodes")]


@pytest.mark.parametrize("again", [False, True])
async def test_a_role_that_is_gone_is_not_created_again(
    cluster: Hands, *, again: bool
) -> None:
    """Nor does a namesake that gathers nothing get rules; upstream gives them."""
    add(cluster, "all", aggregationRule=selecting("a"))
    add(cluster, "one", "a", rules=[rule("pods")])

    async def delete_once(request: Request) -> None:
        if request.method != "PATCH":
            return
        meddler.meddle = None
        cluster.remove(CLUSTER_ROLES, "all")
        if again:
            body = json.dumps({"metadata": {"name": "all"}}).encode()
            await cluster.client.create_json(CLUSTER_ROLES, "", body)

    meddler = Meddler(cluster.transport, delete_once)
    async with cluster.manager(CONFIG, meddler) as recording:
        await asyncio.sleep(60)
        roles = (await cluster.client.list_page(CLUSTER_ROLES)).items
    assert [each.metadata.name for each in roles if each.rules] == ["one"]
    assert len(roles) == 1 + again
    assert [each.status for each in recording.writes] == [422 if again else 409]


async def test_its_role_is_enough() -> None:
    """It may escalate, as upstream's bootstrap policy says."""
    cluster = Hands(rbac=True)
    add(cluster, "all", aggregationRule=selecting("a"))
    add(cluster, "one", "a", rules=[rule("pods")])
    config = make_config(
        controllers=("clusterrole-aggregation",), use_service_account_credentials=True
    )
    async with cluster.confined_manager(config) as recording:
        await asyncio.sleep(1)
        assert await rules(cluster.client, "all") == [rule("pods")]
        assert await rules(cluster.client, "edit")
    answers = {each.path.rpartition("/")[2]: each.status for each in recording.writes}
    assert answers == dict.fromkeys(("admin", "all", "edit", "view"), 200)


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
def test_a_role_selects_others_by_their_labels(
    selector: LabelSelector, selected: list[bool]
) -> None:
    unfit = expression("c", "Exists")
    aggregated = ClusterRole(aggregation_rule=AggregationRule((unfit, selector)))
    assert [selects(aggregated, each) for each in ROLES] == selected
    assert list(AGGREGATED.function(aggregated)) == [""]
    assert not list(AGGREGATED.function(ROLES[0]))
