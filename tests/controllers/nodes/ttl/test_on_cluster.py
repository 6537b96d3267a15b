"""Nodes are annotated on a cluster in memory, on virtual time."""

import asyncio

import pytest

from controller_manager.api.core.v1 import NODES
from controller_manager.controllers.nodes.ttl.controller import STEPS, step_for
from tests.clusters import make_config
from tests.controllers.hands import Hands


@pytest.mark.looptime
async def test_a_grown_cluster_annotates_all_nodes(cluster: Hands) -> None:
    for number in range(100):
        cluster.add("Node", f"n{number:03}")
    async with cluster.manager(make_config(controllers=("ttl",))):
        await asyncio.sleep(1)
        assert await _told(cluster) == {"0": 100}
        cluster.add("Node", "n100")
        await asyncio.sleep(1)
        assert await _told(cluster) == {"15": 101}
        cluster.remove(NODES, "n100")
        await asyncio.sleep(1)
        assert await _told(cluster) == {"15": 100}


async def _told(cluster: Hands) -> dict[str | None, int]:
    told: dict[str | None, int] = {}
    for each in (await cluster.client.list_page(NODES)).items:
        annotations = each.metadata.annotations
        value = annotations.ttl if annotations is not None else None
        told[value] = told.get(value, 0) + 1
    return told


@pytest.mark.looptime
async def test_a_wrong_annotation_of_a_node_is_corrected(cluster: Hands) -> None:
    note = {"node.alpha.kubernetes.io/ttl": "7"}
    right = {"node.alpha.kubernetes.io/ttl": "0"}
    cluster.add("Node", "wrong")
    cluster.add("Node", "right")
    for name, annotations in (("wrong", note), ("right", right)):
        cluster.edit(NODES, name, metadata={"annotations": annotations})
    async with cluster.manager(make_config(controllers=("ttl",))) as recording:
        await asyncio.sleep(1)
        assert await _told(cluster) == {"0": 2}
        assert [each.path for each in recording.writes] == ["/api/v1/nodes/wrong"]


@pytest.mark.parametrize(
    ("nodes", "before", "after"),
    [
        (0, 0, 0),
        (100, 0, 0),
        (101, 0, 1),
        (95, 1, 1),
        (89, 1, 0),
        (5_000, 0, 4),
        (1_799, 4, 3),
        (1, 4, 0),
    ],
)
def test_ranges_of_sizes_overlap(nodes: int, before: int, after: int) -> None:
    """With upstream's limits: one for growing, a lower one for shrinking."""
    assert step_for(nodes, before) == after


def test_the_seconds_are_upstreams() -> None:
    assert [each.seconds for each in STEPS] == [0, 15, 30, 60, 300]
