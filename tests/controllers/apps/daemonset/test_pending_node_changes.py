"""Syncs after the change of a node, before the node workers process it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from unittest import mock

import pytest

from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.meta import is_deleting
from controller_manager.client.rest.client import DeleteOptions, PatchType
from controller_manager.controllers.apps.daemonset.nodes import NodeHandlers
from controller_manager.runtime.outcome import Outcome
from tests.clusters import Cluster
from tests.controllers.apps.daemonset.fixtures import Operator, running
from tests.controllers.user import settle

pytestmark = pytest.mark.looptime

_AT_ONCE = DeleteOptions(grace_period_seconds=0)


@asynccontextmanager
async def held_node_workers(
    cluster: Cluster, *nodes: str
) -> AsyncGenerator[tuple[Operator, asyncio.Event], None]:
    """Run a manager whose node workers wait until the event is set."""
    may_look = asyncio.Event()
    may_look.set()
    sync_node = NodeHandlers.sync_node

    async def held(self: NodeHandlers, name: str) -> Outcome:
        await may_look.wait()
        return await sync_node(self, name)

    with mock.patch.object(NodeHandlers, "sync_node", held):
        async with running(cluster, *nodes) as (operator, _):
            yield operator, may_look
            may_look.set()
            await settle(1)


async def cause_a_sync(operator: Operator, pod: str) -> None:
    """Change a pod in a way that only causes a sync of its daemon set."""
    patch = {"metadata": {"annotations": {"touched": "yes"}}}
    await operator.client.patch(PODS, "default", pod, patch, PatchType.MERGE)
    await settle(1)


async def test_a_pod_on_a_node_that_came_back_stays_before_the_node_is_processed(
    cluster: Cluster,
) -> None:
    """The fit of a node that the compiled template lacks is computed at once."""
    async with held_node_workers(cluster, "n1", "n2") as (operator, may_look):
        await operator.run_all()
        before = await operator.placed()
        await operator.client.delete(NODES, "", "n1")
        await settle(1)
        may_look.clear()
        await operator.add_node("n1")
        await cause_a_sync(operator, before["n2"][0])
        assert [each for each in await operator.pods() if is_deleting(each)] == []
        assert await operator.numbers() == (2, 2, 2, 2, 0)
    assert await operator.placed() == before


async def test_a_pod_on_an_unknown_node_that_does_not_fit_is_deleted_at_once(
    cluster: Cluster,
) -> None:
    """The fit is that of the cached node; unknown nodes are not spared."""
    async with held_node_workers(cluster, "n1", "n2") as (operator, may_look):
        await operator.run_all()
        before = await operator.placed()
        await operator.client.delete(NODES, "", "n1")
        await settle(1)
        may_look.clear()
        cluster.add(
            "Node", "n1", spec={"taints": [{"key": "x", "effect": "NoExecute"}]}
        )
        await cause_a_sync(operator, before["n2"][0])
        pod = await operator.client.get(PODS, "default", before["n1"][0])
        assert pod.metadata.deletion_timestamp is not None


async def test_no_pod_is_created_on_a_node_that_has_just_ceased_to_fit(
    cluster: Cluster,
) -> None:
    """Nor for a node that is gone, although both were suitable before."""
    async with held_node_workers(cluster, "n1", "n2", "n3") as (operator, may_look):
        await operator.run_all()
        before = await operator.placed()
        may_look.clear()
        await operator.taint("n1", "reserved")
        await operator.client.delete(NODES, "", "n2")
        for node in ("n1", "n2"):
            await operator.client.delete(PODS, "default", before[node][0], _AT_ONCE)
        await cause_a_sync(operator, before["n3"][0])
        assert await operator.placed() == {"n3": before["n3"]}
        assert await operator.numbers() == (1, 1, 1, 1, 0)
