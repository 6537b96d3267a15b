"""Nodes die and come back on a cluster in memory, on virtual time."""

import asyncio
from datetime import timedelta

import pytest

from controller_manager.api.core.v1 import NODES
from controller_manager.api.scalars import parse_time
from controller_manager.client.rest.client import PatchType
from controller_manager.clock import LoopClock
from tests.clusters import EPOCH, Cluster
from tests.controllers.nodes.nodelifecycle.fixtures import (
    add_node,
    add_pod,
    all_taints,
    events,
    heartbeats,
    lifecycle_config,
    node,
    post,
    ready_pods,
    renew,
    statuses,
    taints,
    tolerating,
)

pytestmark = pytest.mark.looptime

UNREACHABLE = ["unreachable:NoSchedule", "unreachable:NoExecute"]
NOT_READY = ["not-ready:NoSchedule", "not-ready:NoExecute"]
EVICTION = "taint-eviction-controller"


async def test_a_node_without_heartbeats_is_unreachable_and_comes_back(
    cluster: Cluster,
) -> None:
    add_node(cluster, "ok")
    add_node(cluster, "dead")
    add_pod(cluster, "p", "dead")
    add_pod(cluster, "other", "ok")
    async with (
        heartbeats(cluster, "ok", "dead") as alive,
        cluster.manager(lifecycle_config()) as recording,
    ):
        await asyncio.sleep(20)
        assert recording.writes == []
        alive.remove("dead")
        await asyncio.sleep(12)
        assert await statuses(cluster, "dead") == {
            "Ready": "Unknown",
            "MemoryPressure": "Unknown",
            "DiskPressure": "Unknown",
            "PIDPressure": "Unknown",
        }
        assert await all_taints(cluster) == {"ok": [], "dead": UNREACHABLE}
        assert await ready_pods(cluster) == {"p": "False", "other": "True"}
        alive.add("dead")
        await post(cluster, "dead")
        await asyncio.sleep(3)
        assert await all_taints(cluster) == {"ok": [], "dead": []}
        assert [write.status for write in recording.writes] == [200] * 6
    assert await events(cluster) == [
        (
            "Node/dead Normal NodeNotReady [node-controller]: "
            "Node dead status is now: NodeNotReady"
        ),
        (
            "Node/dead Normal RegisteredNode [node-controller]: "
            "Node dead event: Registered Node dead in Controller"
        ),
        (
            "Node/ok Normal RegisteredNode [node-controller]: "
            "Node ok event: Registered Node ok in Controller"
        ),
        "Pod/p Warning NodeNotReady [node-controller]: Node is not ready",
    ]


async def test_the_pods_of_a_kubelet_that_posts_not_ready_stay_ready(
    cluster: Cluster,
) -> None:
    add_node(cluster, "ok")
    add_node(cluster, "a")
    add_pod(cluster, "p", "a")
    async with heartbeats(cluster, "ok", "a"), cluster.manager(lifecycle_config()):
        await asyncio.sleep(2)
        await post(cluster, "a", Ready="False")
        await asyncio.sleep(3)
        assert await taints(cluster, "a") == NOT_READY
        assert await ready_pods(cluster) == {"p": "True"}
        await post(cluster, "a")
        await asyncio.sleep(3)
        assert await taints(cluster, "a") == []


async def test_pods_of_a_node_that_is_not_ready_go_when_their_toleration_is_over(
    cluster: Cluster,
) -> None:
    for each in ("ok", "a", "silent"):
        add_node(cluster, each)
    add_pod(cluster, "p", "a", **tolerating("not-ready"))
    add_pod(cluster, "mute", "silent", **tolerating("unreachable"))
    config = lifecycle_config(controllers=("nodelifecycle", EVICTION))
    async with heartbeats(cluster, "ok", "a", "silent") as alive:
        async with cluster.manager(config):
            await asyncio.sleep(2)
            await post(cluster, "a", Ready="False")
            await asyncio.sleep(3)
        async with cluster.manager(config):
            alive.remove("silent")
            await asyncio.sleep(10)
            add_pod(cluster, "late", "a", **tolerating("not-ready"))
            await asyncio.sleep(280)
            assert await all_taints(cluster) == {
                "ok": [],
                "a": NOT_READY,
                "silent": UNREACHABLE,
            }
            every = {"p": "True", "late": "True", "mute": "False"}
            assert await ready_pods(cluster) == every
            await asyncio.sleep(12)
            assert await ready_pods(cluster) == {"late": "True", "mute": "False"}
            await asyncio.sleep(10)
            assert await ready_pods(cluster) == {}


async def test_a_node_that_never_posts_is_unreachable_unless_it_has_a_lease(
    cluster: Cluster,
) -> None:
    add_node(cluster, "ok")
    async with heartbeats(cluster, "ok", "leased"), cluster.manager(lifecycle_config()):
        cluster.add("Node", "mute")
        cluster.add("Node", "leased")
        await asyncio.sleep(4)
        assert await statuses(cluster, "mute") == {}
        await asyncio.sleep(5)
        assert await all_taints(cluster) == {
            "ok": [],
            "mute": UNREACHABLE,
            "leased": [],
        }
        assert await statuses(cluster, "leased") == {}


async def test_a_cluster_that_is_down_evicts_nothing(cluster: Cluster) -> None:
    for name in "abc":
        add_node(cluster, name)
    async with (
        heartbeats(cluster, "a", "b", "c") as alive,
        cluster.manager(lifecycle_config()),
    ):
        await asyncio.sleep(2)
        alive.remove("a")
        await asyncio.sleep(10)
        assert await taints(cluster, "a") == UNREACHABLE
        alive.clear()
        await asyncio.sleep(15)
        assert await all_taints(cluster) == dict.fromkeys("abc", UNREACHABLE[:1])
        alive.add("c")
        await post(cluster, "c")
        await asyncio.sleep(4)
        assert await all_taints(cluster) == {
            "a": UNREACHABLE,
            "b": UNREACHABLE,
            "c": [],
        }


async def test_nodes_of_a_zone_are_tainted_at_its_rate(cluster: Cluster) -> None:
    for name in ("a", "b", "ok"):
        add_node(cluster, name)
    async with (
        heartbeats(cluster, "a", "b", "ok"),
        cluster.manager(lifecycle_config(node_eviction_rate=0.125)),
    ):
        await asyncio.sleep(2)
        await post(cluster, "a", Ready="False")
        await post(cluster, "b", Ready="False")
        await asyncio.sleep(7)
        found = await all_taints(cluster)
        assert sorted(found.values()) == [[], NOT_READY[:1], NOT_READY]
        await asyncio.sleep(3)
        assert sorted((await all_taints(cluster)).values()) == [
            [],
            NOT_READY,
            NOT_READY,
        ]


async def test_a_small_zone_in_which_many_nodes_are_down_evicts_nothing(
    cluster: Cluster,
) -> None:
    for name in "abcde":
        add_node(cluster, name)
    async with (
        heartbeats(cluster, *"abcde"),
        cluster.manager(lifecycle_config(node_eviction_rate=0.05)),
    ):
        await asyncio.sleep(2)
        for name in "abc":
            await post(cluster, name, Ready="False")
        await asyncio.sleep(300)
        found = sorted((await all_taints(cluster)).values())
        assert found == [[], [], *[NOT_READY[:1]] * 3]


async def test_a_new_leader_does_not_count_missed_heartbeats_as_dead_nodes(
    cluster: Cluster,
) -> None:
    add_node(cluster, "a")
    add_node(cluster, "b")
    cluster.add_namespace("kube-node-lease")
    await renew(cluster, "a")
    await asyncio.sleep(1000)
    async with cluster.manager(lifecycle_config()) as recording:
        await asyncio.sleep(5)
        assert recording.writes == []
        await asyncio.sleep(4)
        assert (await statuses(cluster, "a"))["Ready"] == "Unknown"


async def test_a_new_leader_marks_the_pods_that_the_old_one_left(
    cluster: Cluster,
) -> None:
    add_node(cluster, "ok")
    add_node(cluster, "a")
    await post(cluster, "a", Ready="Unknown")
    add_pod(cluster, "p", "a")
    async with heartbeats(cluster, "ok"), cluster.manager(lifecycle_config()):
        await asyncio.sleep(3)
        assert await ready_pods(cluster) == {"p": "False"}


async def test_labels_and_the_cordon_are_written_at_once(cluster: Cluster) -> None:
    labels = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"}
    add_node(cluster, "a", labels=labels)
    async with (
        heartbeats(cluster, "a"),
        cluster.manager(lifecycle_config()) as recording,
    ):
        await asyncio.sleep(1)
        patch = {"spec": {"unschedulable": True}}
        await cluster.client.patch(NODES, "", "a", patch, PatchType.MERGE)
        await asyncio.sleep(1)
        assert await taints(cluster, "a") == ["unschedulable:NoSchedule"]
        found = await cluster.client.get(NODES, "", "a")
    assert found.metadata.labels == {**labels, "beta.kubernetes.io/os": "linux"}
    assert [write.status for write in recording.writes] == [200, 200]


async def test_a_node_that_is_removed_is_reported(cluster: Cluster) -> None:
    add_node(cluster, "a")
    async with heartbeats(cluster, "a"), cluster.manager(lifecycle_config()):
        await asyncio.sleep(2)
        await cluster.client.delete(NODES, "", "a")
        await asyncio.sleep(3)
    assert await events(cluster) == [
        (
            "Node/a Normal RegisteredNode [node-controller]: "
            "Node a event: Registered Node a in Controller"
        ),
        (
            "Node/a Normal RemovingNode [node-controller]: "
            "Node a event: Removing Node a from Controller"
        ),
    ]


async def test_the_two_evicting_taints_are_swapped_at_once(cluster: Cluster) -> None:
    add_node(cluster, "ok")
    add_node(cluster, "a")
    async with (
        heartbeats(cluster, "ok"),
        cluster.manager(lifecycle_config(node_eviction_rate=0.001)),
    ):
        await asyncio.sleep(12)
        assert await taints(cluster, "a") == UNREACHABLE
        await post(cluster, "a", Ready="False")
        await asyncio.sleep(2)
        assert sorted(await taints(cluster, "a")) == sorted(NOT_READY)
        await asyncio.sleep(8)
        assert sorted(await taints(cluster, "a")) == sorted(UNREACHABLE)


@pytest.mark.parametrize("dead", [("a",), ("a", "b", "c", "d", "e")])
async def test_a_silent_node_is_tainted_in_the_check_that_marks_it(
    cluster: Cluster, dead: tuple[str, ...]
) -> None:
    alive = [f"ok-{number}" for number in range(5)]
    for name in (*alive, *dead):
        add_node(cluster, name)
    config = lifecycle_config(period=30.0, node_eviction_rate=1000.0)
    async with heartbeats(cluster, *alive), cluster.manager(config) as recording:
        await asyncio.sleep(29)
        assert {(await statuses(cluster, each))["Ready"] for each in dead} == {"True"}
        await asyncio.sleep(2)
        assert {each: await taints(cluster, each) for each in dead} == dict.fromkeys(
            dead, UNREACHABLE
        )
    assert [each.status for each in recording.writes] == [200] * 3 * len(dead)


async def test_a_node_that_never_posted_is_tainted_in_the_check_that_marks_it(
    cluster: Cluster,
) -> None:
    add_node(cluster, "ok")
    cluster.add("Node", "mute")
    config = lifecycle_config(period=30.0)
    async with heartbeats(cluster, "ok"), cluster.manager(config):
        await asyncio.sleep(31)
        assert await taints(cluster, "mute") == UNREACHABLE


async def test_the_taint_of_a_silent_node_is_swapped_in_the_check_that_marks_it(
    cluster: Cluster,
) -> None:
    add_node(cluster, "ok")
    add_node(cluster, "a")
    await post(cluster, "a", Ready="False")
    # The second taint must not wait for a turn.
    config = lifecycle_config(period=30.0, node_eviction_rate=0.001)
    async with heartbeats(cluster, "ok"), cluster.manager(config):
        await asyncio.sleep(5)
        assert await taints(cluster, "a") == NOT_READY
        await asyncio.sleep(26)
        assert sorted(await taints(cluster, "a")) == sorted(UNREACHABLE)


async def test_a_taint_has_the_time_of_the_server(cluster: Cluster) -> None:
    """Tolerations count from it: with a slow clock, pods would be evicted too early."""
    add_node(cluster, "ok")
    add_node(cluster, "dead")
    behind = LoopClock(EPOCH - timedelta(hours=1))
    async with (
        heartbeats(cluster, "ok"),
        cluster.manager(lifecycle_config(), clock=behind),
    ):
        await asyncio.sleep(12)
    added = [
        each.time_added for each in (await node(cluster, "dead")).spec.taints or ()
    ]
    ages = [cluster.clock.now() - parse_time(each or "") for each in added]
    assert len(ages) == len(UNREACHABLE)
    assert max(ages) < timedelta(seconds=8)
