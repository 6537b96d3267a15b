"""Nodes die and come back on a cluster in memory, on virtual time."""

import asyncio
from datetime import timedelta

import pytest

from controller_manager.api.core.v1 import NODES
from controller_manager.api.scalars import parse_time
from controller_manager.clock import LoopClock
from tests.clusters import EPOCH
from tests.controllers.scenarios import Scenario, scenarios

from .fixtures import Kubelets, lifecycle_config

pytestmark = pytest.mark.looptime


@scenarios("nodes/nodelifecycle")
async def test_nodes_live_and_die(scenario: Scenario) -> None:
    await scenario.play(Kubelets, lifecycle_config)


async def test_a_taint_has_the_time_of_the_server(cluster: Kubelets) -> None:
    """Tolerations count from it: with a slow clock, pods would be evicted too early."""
    cluster.nodes_of("ok", "dead")
    behind = LoopClock(EPOCH - timedelta(hours=1))
    async with cluster.running("ok", clock=behind):
        await asyncio.sleep(12)
    added = cluster.stored(NODES, "dead")["spec"]["taints"]
    ages = [cluster.clock.now() - parse_time(each["timeAdded"]) for each in added]
    assert len(ages) == 2
    assert max(ages) < timedelta(seconds=8)
