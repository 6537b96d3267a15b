"""Nodes: the ranges for their pods, and the taint of those that clients post."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.core.nodes import KIND as NODE
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.conformance.access import MERGE, Access
from tests.devcluster.registry.requests import causes, create, update

pytestmark = pytest.mark.looptime

NOT_A_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
MINE = {"key": "example.com/mine", "effect": "NoExecute"}


def node(**spec: Any) -> JSON:
    """Return a node with a spec."""
    return {"metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"podCIDR": "10.0.0.0/24"}, ("10.0.0.0/24", ["10.0.0.0/24"])),
        ({"podCIDRs": ["10.0.0.0/24"]}, ("10.0.0.0/24", ["10.0.0.0/24"])),
        (
            {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.1.0/24", "fd00::/64"]},
            ("10.0.0.0/24", ["10.0.0.0/24"]),
        ),
        ({}, (None, None)),
    ],
)
async def test_the_older_field_is_the_first_range(
    cluster: Cluster, given: JSON, stored: tuple[str | None, list[str] | None]
) -> None:
    """As the conversions of the API server keep them equal."""
    spec = create(cluster, "Node", node(**given))["spec"]
    assert (spec.get("podCIDR"), spec.get("podCIDRs")) == stored


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        (["10.0.0.0"], f'spec.podCIDRs[0]: Invalid value: "10.0.0.0": {NOT_A_RANGE}'),
        (
            ["10.0.0.0/24", "10.0.1.0/24"],
            "spec.podCIDRs: may specify no more than one CIDR for each IP family",
        ),
    ],
)
async def test_ranges_are_checked(
    cluster: Cluster, ranges: list[str], expected: str
) -> None:
    """One of each family at most."""
    with pytest.raises(Refusal) as raised:
        create(cluster, "Node", node(podCIDRs=ranges))
    assert causes(raised.value) == [expected]


async def test_ranges_that_a_node_has_stay(cluster: Cluster) -> None:
    """They are set once."""
    bare = create(cluster, "Node", node())
    given = {"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}}
    stored = update(cluster, bare, given)
    assert stored["spec"]["podCIDRs"] == ["10.0.0.0/24"]
    for ranges in (None, ["10.0.1.0/24"]):
        with pytest.raises(Refusal) as raised:
            update(cluster, stored, {"spec": {"podCIDR": None, "podCIDRs": ranges}})
        assert causes(raised.value) == [
            (
                "spec.podCIDRs: Forbidden: node updates may not change podCIDR except "
                'from "" to valid'
            )
        ]


@pytest.mark.parametrize(
    ("taints", "stored"),
    [
        (None, [NOT_READY]),
        ([MINE], [MINE, NOT_READY]),
        ([{**NOT_READY, "value": "x"}], [{**NOT_READY, "value": "x"}]),
    ],
)
async def test_a_node_that_a_client_posts_is_not_ready_yet(
    cluster: Cluster, taints: list[JSON] | None, stored: list[JSON]
) -> None:
    """The admission plugin taints it until its kubelet reports that it is ready."""
    access = Access(cluster.transport, "n")
    body = {"apiVersion": "v1", "kind": "Node", **node(taints=taints)}
    posted = await access.call("POST", access.path("Node"), body)
    assert posted["spec"]["taints"] == stored
    patch = {"spec": {"taints": None}}
    path = access.path("Node", "a")
    assert "taints" not in (await access.call("PATCH", path, patch, MERGE))["spec"]


EFFECTS = 'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'


@pytest.mark.parametrize(
    ("taints", "expected"),
    [
        ([{"key": "a"}], ["metadata.taints[0].effect: Required value"]),
        (
            [{"key": "a", "effect": "None"}],
            [f'metadata.taints[0].effect: Unsupported value: "None": {EFFECTS}'],
        ),
        (
            [MINE, {**MINE, "effect": "NoSchedule"}, {**MINE, "value": "x"}],
            [
                (
                    "metadata.taints[2]: Duplicate value: "
                    '{"Key":"example.com/mine","Value":"x","Effect":"NoExecute",'
                    '"TimeAdded":null}: taints must be unique by key and effect pair'
                )
            ],
        ),
    ],
)
async def test_taints_are_checked(
    cluster: Cluster, taints: list[JSON], expected: list[str]
) -> None:
    """Of new nodes and in updates."""
    with pytest.raises(Refusal) as raised:
        create(cluster, "Node", node(taints=taints))
    assert causes(raised.value) == expected
    stored = create(cluster, "Node", node())
    with pytest.raises(Refusal) as raised:
        update(cluster, stored, {"spec": {"taints": taints}})
    assert causes(raised.value) == expected


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (
            {"operator": "Equal", "value": "x"},
            [
                (
                    'operator: Invalid value: "Equal": operator must be Exists when '
                    '`key` is empty, which means "match all values and all keys"'
                )
            ],
        ),
        (
            {"key": "a", "operator": "Exists", "tolerationSeconds": 1},
            [
                (
                    "effect: Invalid value: \"\": effect must be 'NoExecute' when "
                    "`tolerationSeconds` is set"
                )
            ],
        ),
        (
            {"key": "a", "operator": "Exists", "value": "x"},
            ["operator: value must be empty when `operator` is 'Exists'"],
        ),
        (
            {"key": "a", "operator": "In"},
            ['operator: Unsupported value: "In": supported values: "Equal", "Exists"'],
        ),
        (
            {"key": "a", "effect": "None"},
            [f'effect: Unsupported value: "None": {EFFECTS}'],
        ),
        ({"operator": "Exists"}, None),
        ({"key": "a", "effect": "NoExecute", "tolerationSeconds": 0}, None),
    ],
)
async def test_tolerations_are_checked(
    cluster: Cluster, toleration: JSON, expected: list[str] | None
) -> None:
    """As a real API server checks them."""
    change = {"spec": {"tolerations": [toleration]}}
    if expected is None:
        assert toleration in create(cluster, "Pod", change)["spec"]["tolerations"]
        return
    with pytest.raises(Refusal) as raised:
        create(cluster, "Pod", change)
    assert causes(raised.value) == [f"spec.tolerations[0].{each}" for each in expected]


READY = {"type": "Ready", "status": "True"}
INFO = {
    "kubeletVersion": "v1.36.2",
    "osImage": "Debian",
    "kernelVersion": "6.12.0",
    "containerRuntimeVersion": "containerd://2.1.4",
}
INTERNAL = {"type": "InternalIP", "address": "10.0.0.1"}
EXTERNAL = {"type": "ExternalIP", "address": "192.0.2.1"}


@pytest.mark.parametrize(
    ("labels", "spec", "status", "cells"),
    [
        (
            {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "x"},
            {},
            {
                "conditions": [READY],
                "nodeInfo": INFO,
                "addresses": [INTERNAL, EXTERNAL],
            },
            [
                *("a", "Ready", "control-plane,x", "30s", "v1.36.2"),
                *("10.0.0.1", "192.0.2.1", "Debian", "6.12.0", "containerd://2.1.4"),
            ],
        ),
        (
            {},
            {"unschedulable": True},
            {"conditions": [{**READY, "status": "Unknown"}]},
            [
                *("a", "NotReady,SchedulingDisabled", "<none>", "30s", ""),
                *("<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"),
            ],
        ),
        (
            {},
            {},
            {},
            [
                *("a", "Unknown", "<none>", "30s", ""),
                *("<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"),
            ],
        ),
    ],
)
def test_a_node_is_shown_as_upstream_shows_it(
    labels: JSON, spec: JSON, status: JSON, cells: list[Any]
) -> None:
    """With its addresses and its machine in a wide table."""
    now = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
    created = "2026-01-01T00:00:00Z"
    metadata = {"name": "a", "creationTimestamp": created, "labels": labels}
    obj = {"metadata": metadata, "spec": spec, "status": status}
    assert NODE.strategy.cells(obj, now) == cells
    assert len(NODE.strategy.table_columns()) == len(cells)
