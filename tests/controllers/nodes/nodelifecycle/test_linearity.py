"""The cost of heartbeats and of checks of healthy nodes."""

import asyncio
import time

import pytest

from controller_manager.api.core.v1 import Node, NodeCondition, NodeMeta, NodeStatus
from controller_manager.controllers.nodes.nodelifecycle.controller import NodeMonitor
from controller_manager.controllers.nodes.nodelifecycle.health import (
    READY,
    GracePeriods,
    NodeHealth,
    NodeRecord,
    NodeTracker,
)
from tests.benchmarks.renewals import Renewals
from tests.clusters import Cluster
from tests.controllers.nodes.nodelifecycle.calls import counted_calls
from tests.controllers.nodes.nodelifecycle.fixtures import (
    add_node,
    heartbeats,
    lifecycle_config,
)

GRACE = GracePeriods(startup=60, monitor=50)


def _records(count: int) -> NodeTracker:
    """Return the records of healthy nodes that were seen at 0 seconds."""
    records = NodeTracker(GRACE)
    ready = NodeStatus(conditions=(NodeCondition(type="Ready", status="True"),))
    for number in range(count):
        node = Node(metadata=NodeMeta(name=f"n{number}"), status=ready)
        record = NodeRecord(node, NodeHealth(0.0, posted=True, heartbeat=None))
        records.add(record)
        records.set_status(record, READY)
    return records


def test_a_healthy_node_is_checked_once_in_its_grace_period() -> None:
    """Its renewals add no key to a queue, and no other check includes it."""
    records = _records(1000)
    for second in range(0, 500, 10):
        for number in range(1000):
            records.renewed(f"n{number}", str(second), float(second))
        assert records.due(second + 5.0) == []
    assert records.counts()[""].size == 1000
    assert records.due(539.0) == []
    assert len(records.due(600.0)) == 1000
    assert records.due(600.0) == []


def test_no_state_is_kept_of_nodes_that_are_gone() -> None:
    """Their deadlines are dropped at the end of their grace periods."""
    records = _records(10)
    for number in range(10):
        records.remove(f"n{number}")
    records.renewed("n1", "1", 1.0)
    assert records.due(100.0) == []
    assert (len(records._by_name), records.counts(), records.unhealthy) == (0, {}, {})


def test_a_lease_without_a_time_is_no_heartbeat() -> None:
    """A user may have created it again, or have edited it."""
    records = _records(1)
    records.renewed("n0", "1", 10.0)
    records.renewed("n0", None, 20.0)
    record = records.get("n0")
    assert record is not None
    assert (record.renewed, record.renewed_at, record.heard_at) == ("1", 10.0, 10.0)


@pytest.mark.slow
def test_the_heartbeats_of_five_thousand_nodes_cost_next_to_nothing() -> None:
    """Storing 500 renewals per second takes less than a thousandth of a processor.

    A renewal takes about 0.3 µs, independent of the number of nodes.
    """
    records = _records(5000)
    began = time.process_time()
    for second in range(0, 100, 10):
        for number in range(5000):
            records.renewed(f"n{number}", str(second), float(second))
        records.due(float(second))
    seconds = time.process_time() - began
    assert seconds < 0.5  # for 100 seconds of heartbeats


@pytest.mark.looptime
async def test_a_check_of_a_quiet_cluster_checks_no_node(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first check, only nodes whose grace period is over are checked."""
    looked: list[int] = []
    judge = NodeMonitor._check_health

    async def counting(self: NodeMonitor, names: list[str]) -> list[str]:
        looked.append(len(names))
        return await judge(self, names)

    monkeypatch.setattr(NodeMonitor, "_check_health", counting)
    names = [f"n{number}" for number in range(20)]
    for name in names:
        add_node(cluster, name)
    async with heartbeats(cluster, *names), cluster.manager(lifecycle_config()):
        await asyncio.sleep(30)
    assert (looked[0], sum(looked[1:])) == (20, 0)


async def _calls_of(nodes: int) -> int:
    """Return the calls that fifteen seconds of heartbeats of so many nodes cost.

    The manager checks three times meanwhile.
    """
    cluster = Cluster()
    renewals = Renewals(cluster.server.storage, cluster.clock)
    renewals.add(nodes)
    config = lifecycle_config(period=5.0, node_monitor_grace_period=50.0)
    async with cluster.manager(config) as recording:
        await renewals.run(15)
        sent = len(recording.writes)
        with counted_calls() as calls:
            await renewals.run(15)
    assert len(recording.writes) == sent
    return calls.count


@pytest.mark.slow
@pytest.mark.looptime
async def test_a_node_costs_the_same_among_many() -> None:
    """A node among 5,000 costs no more than 1.5 times as much as among 1,000.

    The test counts calls of functions, not seconds, so a busy machine does not matter.
    """
    few, many = await _calls_of(1000), await _calls_of(5000)
    assert few > 1000
    assert many / 5000 <= 1.5 * few / 1000
