"""Nodes die and come back on a cluster in memory, on virtual time."""

import asyncio
from datetime import timedelta

import pytest

from controller_manager.api.core.v1 import NODES
from controller_manager.api.scalars import parse_time
from controller_manager.clock import LoopClock
from tests.clusters import EPOCH

from .fixtures import Kubelets, lifecycle_config, tolerating

pytestmark = pytest.mark.looptime

UNREACHABLE = ["unreachable:NoSchedule", "unreachable:NoExecute"]
NOT_READY = ["not-ready:NoSchedule", "not-ready:NoExecute"]
EVICTION = "taint-eviction-controller"


async def test_a_node_without_heartbeats_is_unreachable_and_comes_back(
    cluster: Kubelets,
) -> None:
    cluster.nodes_of("ok", "dead")
    cluster.pod("p", "dead")
    cluster.pod("other", "ok")
    async with cluster.running("ok", "dead") as (alive, recording):
        await asyncio.sleep(20)
        assert recording.writes == []
        alive.remove("dead")
        await asyncio.sleep(12)
        assert cluster.statuses("dead") == {
            "Ready": "Unknown",
            "MemoryPressure": "Unknown",
            "DiskPressure": "Unknown",
            "PIDPressure": "Unknown",
        }
        assert cluster.all_taints() == {"ok": [], "dead": UNREACHABLE}
        assert cluster.ready_pods() == {"p": "False", "other": "True"}
        alive.add("dead")
        cluster.post("dead")
        await asyncio.sleep(3)
        assert cluster.all_taints() == {"ok": [], "dead": []}
        assert [write.status for write in recording.writes] == [200] * 6
    by = "[node-controller]"
    registered = f"Normal RegisteredNode {by}"
    assert cluster.told() == [
        f"dead Normal NodeNotReady {by}: Node dead status is now: NodeNotReady",
        f"dead {registered}: Node dead event: Registered Node dead in Controller",
        f"ok {registered}: Node ok event: Registered Node ok in Controller",
        f"p Warning NodeNotReady {by}: Node is not ready",
    ]


async def test_the_pods_of_a_kubelet_that_posts_not_ready_stay_ready(
    cluster: Kubelets,
) -> None:
    cluster.nodes_of("ok", "a")
    cluster.pod("p", "a")
    async with cluster.running("ok", "a"):
        await asyncio.sleep(2)
        cluster.post("a", Ready="False")
        await asyncio.sleep(3)
        assert cluster.taints("a") == NOT_READY
        assert cluster.ready_pods() == {"p": "True"}
        cluster.post("a")
        await asyncio.sleep(3)
        assert cluster.taints("a") == []


async def test_pods_of_a_node_that_is_not_ready_go_when_their_toleration_is_over(
    cluster: Kubelets,
) -> None:
    cluster.nodes_of(*("ok", "a", "silent"))
    cluster.pod("p", "a", **tolerating("not-ready"))
    cluster.pod("mute", "silent", **tolerating("unreachable"))
    config = lifecycle_config(controllers=("nodelifecycle", EVICTION))
    async with cluster.heartbeats("ok", "a", "silent") as alive:
        async with cluster.manager(config):
            await asyncio.sleep(2)
            cluster.post("a", Ready="False")
            await asyncio.sleep(3)
        async with cluster.manager(config):
            alive.remove("silent")
            await asyncio.sleep(10)
            cluster.pod("late", "a", **tolerating("not-ready"))
            await asyncio.sleep(280)
            assert cluster.all_taints() == {
                "ok": [],
                "a": NOT_READY,
                "silent": UNREACHABLE,
            }
            every = {"p": "True", "late": "True", "mute": "False"}
            assert cluster.ready_pods() == every
            await asyncio.sleep(12)
            assert cluster.ready_pods() == {"late": "True", "mute": "False"}
            await asyncio.sleep(10)
            assert cluster.ready_pods() == {}


async def test_a_node_that_never_posts_is_unreachable_unless_it_has_a_lease(
    cluster: Kubelets,
) -> None:
    cluster.nodes_of("ok")
    async with cluster.running("ok", "leased"):
        cluster.add("Node", "mute")
        cluster.add("Node", "leased")
        await asyncio.sleep(4)
        assert cluster.statuses("mute") == {}
        await asyncio.sleep(5)
        assert cluster.all_taints() == {
            "ok": [],
            "mute": UNREACHABLE,
            "leased": [],
        }
        assert cluster.statuses("leased") == {}


async def test_a_cluster_that_is_down_evicts_nothing(cluster: Kubelets) -> None:
    cluster.nodes_of(*"abc")
    async with cluster.running("a", "b", "c") as (alive, _):
        await asyncio.sleep(2)
        alive.remove("a")
        await asyncio.sleep(10)
        assert cluster.taints("a") == UNREACHABLE
        alive.clear()
        await asyncio.sleep(15)
        assert cluster.all_taints() == dict.fromkeys("abc", UNREACHABLE[:1])
        alive.add("c")
        cluster.post("c")
        await asyncio.sleep(4)
        assert cluster.all_taints() == {
            "a": UNREACHABLE,
            "b": UNREACHABLE,
            "c": [],
        }


async def test_nodes_of_a_zone_are_tainted_at_its_rate(cluster: Kubelets) -> None:
    cluster.nodes_of(*("a", "b", "ok"))
    async with cluster.running("a", "b", "ok", node_eviction_rate=0.125):
        await asyncio.sleep(2)
        cluster.post("a", Ready="False")
        cluster.post("b", Ready="False")
        await asyncio.sleep(7)
        found = cluster.all_taints()
        assert sorted(found.values()) == [[], NOT_READY[:1], NOT_READY]
        await asyncio.sleep(3)
        assert sorted(cluster.all_taints().values()) == [
            [],
            NOT_READY,
            NOT_READY,
        ]


async def test_a_small_zone_in_which_many_nodes_are_down_evicts_nothing(
    cluster: Kubelets,
) -> None:
    cluster.nodes_of(*"abcde")
    async with cluster.running(*"abcde", node_eviction_rate=0.05):
        await asyncio.sleep(2)
        for name in "abc":
            cluster.post(name, Ready="False")
        await asyncio.sleep(300)
        found = sorted(cluster.all_taints().values())
        assert found == [[], [], *[NOT_READY[:1]] * 3]


async def test_a_new_leader_does_not_count_missed_heartbeats_as_dead_nodes(
    cluster: Kubelets,
) -> None:
    cluster.nodes_of("a", "b")
    cluster.add_namespace("kube-node-lease")
    cluster.renew("a")
    await asyncio.sleep(1000)
    async with cluster.manager(lifecycle_config()) as recording:
        await asyncio.sleep(5)
        assert recording.writes == []
        await asyncio.sleep(4)
        assert (cluster.statuses("a"))["Ready"] == "Unknown"


async def test_a_new_leader_marks_the_pods_that_the_old_one_left(
    cluster: Kubelets,
) -> None:
    cluster.nodes_of("ok", "a")
    cluster.post("a", Ready="Unknown")
    cluster.pod("p", "a")
    async with cluster.running("ok"):
        await asyncio.sleep(3)
        assert cluster.ready_pods() == {"p": "False"}


async def test_labels_and_the_cordon_are_written_at_once(cluster: Kubelets) -> None:
    labels = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"}
    cluster.nodes_of("a", labels=labels)
    async with cluster.running("a") as (_, recording):
        await asyncio.sleep(1)
        cluster.edit(NODES, "a", spec={"unschedulable": True})
        await asyncio.sleep(1)
        assert cluster.taints("a") == ["unschedulable:NoSchedule"]
    assert cluster.stored(NODES, "a")["metadata"]["labels"] == {
        **labels,
        "beta.kubernetes.io/os": "linux",
    }
    assert [write.status for write in recording.writes] == [200, 200]


async def test_a_node_that_is_removed_is_reported(cluster: Kubelets) -> None:
    cluster.nodes_of("a")
    async with cluster.running("a"):
        await asyncio.sleep(2)
        cluster.remove(NODES, "a")
        await asyncio.sleep(3)
    by = "[node-controller]"
    assert cluster.told() == [
        f"a Normal RegisteredNode {by}: Node a event: Registered Node a in Controller",
        f"a Normal RemovingNode {by}: Node a event: Removing Node a from Controller",
    ]


async def test_the_two_evicting_taints_are_swapped_at_once(cluster: Kubelets) -> None:
    cluster.nodes_of("ok", "a")
    async with cluster.running("ok", node_eviction_rate=0.001):
        await asyncio.sleep(12)
        assert cluster.taints("a") == UNREACHABLE
        cluster.post("a", Ready="False")
        await asyncio.sleep(2)
        assert sorted(cluster.taints("a")) == sorted(NOT_READY)
        await asyncio.sleep(8)
        assert sorted(cluster.taints("a")) == sorted(UNREACHABLE)


@pytest.mark.parametrize("dead", [("a",), ("a", "b", "c", "d", "e")])
async def test_a_silent_node_is_tainted_in_the_check_that_marks_it(
    cluster: Kubelets, dead: tuple[str, ...]
) -> None:
    alive = [f"ok-{number}" for number in range(5)]
    cluster.nodes_of(*(*alive, *dead))
    config = lifecycle_config(period=30.0, node_eviction_rate=1000.0)
    async with cluster.running(*alive, config=config) as (_, recording):
        await asyncio.sleep(29)
        assert {(cluster.statuses(each))["Ready"] for each in dead} == {"True"}
        await asyncio.sleep(2)
        assert {each: cluster.taints(each) for each in dead} == dict.fromkeys(
            dead, UNREACHABLE
        )
    assert [each.status for each in recording.writes] == [200] * 3 * len(dead)


async def test_a_node_that_never_posted_is_tainted_in_the_check_that_marks_it(
    cluster: Kubelets,
) -> None:
    cluster.nodes_of("ok")
    cluster.add("Node", "mute")
    config = lifecycle_config(period=30.0)
    async with cluster.running("ok", config=config):
        await asyncio.sleep(31)
        assert cluster.taints("mute") == UNREACHABLE


async def test_the_taint_of_a_silent_node_is_swapped_in_the_check_that_marks_it(
    cluster: Kubelets,
) -> None:
    cluster.nodes_of("ok", "a")
    cluster.post("a", Ready="False")
    # The second taint must not wait for a turn.
    config = lifecycle_config(period=30.0, node_eviction_rate=0.001)
    async with cluster.running("ok", config=config):
        await asyncio.sleep(5)
        assert cluster.taints("a") == NOT_READY
        await asyncio.sleep(26)
        assert sorted(cluster.taints("a")) == sorted(UNREACHABLE)


async def test_a_taint_has_the_time_of_the_server(cluster: Kubelets) -> None:
    """Tolerations count from it: with a slow clock, pods would be evicted too early."""
    cluster.nodes_of("ok", "dead")
    behind = LoopClock(EPOCH - timedelta(hours=1))
    async with cluster.running("ok", clock=behind):
        await asyncio.sleep(12)
    added = cluster.stored(NODES, "dead")["spec"]["taints"]
    ages = [cluster.clock.now() - parse_time(each["timeAdded"]) for each in added]
    assert len(ages) == len(UNREACHABLE)
    assert max(ages) < timedelta(seconds=8)
