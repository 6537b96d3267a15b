"""Nodes that fit a pod, and the reasons of the others."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheduler.node_infos import (
    TAINTED,
    UNMATCHED,
    UNSCHEDULABLE,
    NodeFacts,
    named_nodes,
    why_not,
)

TAINT = {"key": "a", "value": "b", "effect": "NoSchedule"}


def facts(name: str = "n", labels: JSON | None = None, **spec: Any) -> NodeFacts:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return NodeFacts.of({"metadata": metadata, "spec": spec})


def affine(*terms: JSON) -> JSON:
    required = {"nodeSelectorTerms": list(terms)}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    return {"spec": {"affinity": {"nodeAffinity": affinity}}}


def requirement(key: str, operator: str, *values: str) -> JSON:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("toleration", "reason"),
    [
        ({"operator": "Exists"}, ""),
        ({"key": "a", "operator": "Exists"}, ""),
        ({"key": "a", "operator": "Equal", "value": "b"}, ""),
        ({"key": "a", "value": "b", "effect": "NoExecute"}, TAINTED),
        ({"key": "a", "value": "c"}, TAINTED),
        ({"key": "c", "operator": "Exists"}, TAINTED),
        ({"key": "a", "operator": "Gt", "value": "b"}, TAINTED),
    ],
)
def test_a_toleration_matches_by_key_value_and_effect(
    toleration: JSON, reason: str
) -> None:
    assert (
        why_not({"spec": {"tolerations": [toleration]}}, facts(taints=[TAINT]))
        == reason
    )


def test_a_taint_that_is_only_preferred_keeps_no_pod_away() -> None:
    node = facts(taints=[{**TAINT, "effect": "PreferNoSchedule"}])
    assert why_not({"spec": {}}, node) == ""


def test_a_cordoned_node_takes_pods_that_tolerate_it() -> None:
    node = facts(unschedulable=True)
    assert why_not({"spec": {}}, node) == UNSCHEDULABLE
    key = "node.kubernetes.io/unschedulable"
    tolerations = [{"key": key, "operator": "Exists", "effect": "NoSchedule"}]
    assert why_not({"spec": {"tolerations": tolerations}}, node) == ""


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        ({"spec": {"nodeSelector": {"zone": "a"}}}, ""),
        ({"spec": {"nodeSelector": {"zone": "b"}}}, UNMATCHED),
        ({"spec": {"nodeSelector": {"zone": "a", "disk": "ssd"}}}, UNMATCHED),
        (affine({"matchExpressions": [requirement("zone", "In", "a", "b")]}), ""),
        (affine({"matchExpressions": [requirement("zone", "NotIn", "a")]}), UNMATCHED),
        (affine({"matchExpressions": [requirement("cores", "Gt", "7")]}), ""),
        (affine({"matchExpressions": [requirement("cores", "Gt", "8")]}), UNMATCHED),
        (affine({"matchExpressions": [requirement("cores", "Gt")]}), UNMATCHED),
        (affine({"matchExpressions": [requirement("cores", "Near")]}), UNMATCHED),
        (affine({"matchFields": [requirement("metadata.name", "In", "n")]}), ""),
        (affine({"matchFields": [requirement("metadata.name", "In", "m")]}), UNMATCHED),
        (affine({}), UNMATCHED),
        (affine({}, {"matchExpressions": [requirement("zone", "Exists")]}), ""),
        (
            affine(
                {
                    "matchExpressions": [requirement("zone", "Exists")],
                    "matchFields": [requirement("metadata.name", "In", "m")],
                }
            ),
            UNMATCHED,
        ),
    ],
)
def test_a_node_matches_selector_and_affinity(pod: JSON, reason: str) -> None:
    assert why_not(pod, facts(labels={"zone": "a", "cores": "8"})) == reason


@pytest.mark.parametrize(
    ("pod", "names"),
    [
        ({"spec": {}}, None),
        (affine({"matchExpressions": [requirement("zone", "Exists")]}), None),
        (affine({"matchFields": [requirement("metadata.name", "In", "m")]}), {"m"}),
        (
            affine(
                {"matchFields": [requirement("metadata.name", "In", "m")]},
                {"matchFields": [requirement("metadata.name", "In", "n")]},
            ),
            {"m", "n"},
        ),
        (
            affine(
                {"matchFields": [requirement("metadata.name", "In", "m")]},
                {"matchExpressions": [requirement("zone", "Exists")]},
            ),
            None,
        ),
    ],
)
def test_the_affinity_of_a_daemon_pod_names_its_node(
    pod: JSON, names: set[str] | None
) -> None:
    """So no other node is looked at."""
    assert named_nodes(pod) == names
