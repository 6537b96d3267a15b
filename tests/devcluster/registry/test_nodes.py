"""Nodes: their defaults, the ranges for their pods, and the taint of new ones."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.core.nodes import KIND as NODE
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.conformance.access import MERGE, Access
from tests.devcluster.registry.requests import causes, create, update
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
MINE = {"key": "example.com/mine", "effect": "NoExecute"}


def node(**spec: Any) -> JSON:
    return {"metadata": {"name": "a"}, "spec": spec}


@rows("given", "stored")
async def test_the_older_field_is_the_first_range(
    cluster: Cluster, given: JSON, stored: list[Any]
) -> None:
    spec = create(cluster, "Node", node(**given))["spec"]
    assert [spec.get("podCIDR"), spec.get("podCIDRs")] == stored


async def test_ranges_that_a_node_has_stay(cluster: Cluster) -> None:
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


def test_a_node_that_somebody_creates_has_every_field() -> None:
    node: JSON = {"status": {"nodeInfo": {"kubeletVersion": "v1.30.0"}}}
    NODE.apply_defaults(node)
    assert node == {
        "spec": {},
        "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
                "kernelVersion": "",
                "osImage": "",
                "containerRuntimeVersion": "",
                "kubeletVersion": "v1.30.0",
                "kubeProxyVersion": "",
                "operatingSystem": "",
                "architecture": "",
            },
        },
    }
