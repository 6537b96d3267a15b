"""Pods that fail as soon as they exist are replaced with a growing delay."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller_manager.api.apps.v1 import REPLICASETS
from controller_manager.api.core.v1 import PODS, REPLICATION_CONTROLLERS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.control.creation_delays import FailuresAtOnce
from tests.clusters import EPOCH, Cluster, RecordingTransport, make_config
from tests.controllers.apps.failing_node import Node, Ticking
from tests.controllers.builders import (
    pod,
    replica_set,
    replica_set_json,
    replication_controller_json,
)
from tests.controllers.user import settle

pytestmark = pytest.mark.looptime

CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "taint-eviction-controller",
)


@pytest.fixture
def node(cluster: Cluster) -> Node:
    return Node(cluster)


@asynccontextmanager
async def running(
    cluster: Cluster, node: Node
) -> AsyncGenerator[RecordingTransport, None]:
    config = make_config(controllers=CONTROLLERS)
    async with cluster.manager(config) as recording, node.running():
        yield recording


async def make(node: Node, replicas: int) -> None:
    await node.user.create(REPLICASETS, replica_set_json("web", replicas))


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize(
    ("resource", "body"),
    [
        (REPLICASETS, replica_set_json("web", 1)),
        (REPLICATION_CONTROLLERS, replication_controller_json("web", 1)),
    ],
)
async def test_the_delay_doubles(
    cluster: Cluster, node: Node, resource: Any, body: JSON, *, deletes: bool
) -> None:
    node.deletes = deletes
    async with running(cluster, node):
        await node.user.create(resource, body)
        await settle(140)
    assert node.of("web") == [0, 0, 1, 3, 7, 15, 31, 63, 127]


def test_the_delay_ends_at_fifteen_minutes() -> None:
    clock = Ticking()
    failures = FailuresAtOnce(clock)
    owner = replica_set("web", 1)
    pods, delays = [pod("p0", phase="Failed")], []
    for number in range(1, 15):
        allowance = failures.allowance(owner, pods, EPOCH)
        delays.append(allowance.seconds)
        clock.seconds += allowance.seconds or 0.0
        assert failures.allowance(owner, pods, EPOCH).most in (None, 1)
        pods.append(pod(f"p{number}", phase="Failed"))
    assert delays == [None, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]


def test_nothing_is_remembered_of_a_failed_pod_that_is_gone() -> None:
    """The sync that counts it may be the last one of its owner."""
    failures, owner = FailuresAtOnce(Ticking()), replica_set("web", 1)
    stays, goes, seen = (pod(each, phase="Failed") for each in ("a", "b", "c"))
    failures.allowance(owner, [stays, seen], EPOCH)
    for each in (goes, seen):
        failures.gone("default/web", each)
    assert failures.allowance(owner, [stays], EPOCH).seconds == 1
    assert failures._failures["default/web"].known == {stays.metadata.uid}


async def test_one_pod_at_a_time_is_tried(cluster: Cluster, node: Node) -> None:
    async with running(cluster, node):
        await make(node, 20)
        await settle(60)
    times = node.of("web")
    assert (times.count(0), times[40:]) == (40, [1, 3, 7, 15, 31])


async def test_a_healthy_pod_brings_the_others(cluster: Cluster, node: Node) -> None:
    async with running(cluster, node):
        await make(node, 10)
        await settle(20)
        node.fails = lambda _: False
        await settle(20)
        (replica_set,) = (await node.user.replica_sets()).values()
    assert replica_set.status.ready_replicas == 10
    assert node.of("web")[-10:] == [31] * 10


async def test_waiting_for_an_image_is_healthy(cluster: Cluster, node: Node) -> None:
    """After ten seconds: it has not failed at once."""
    async with running(cluster, node):
        await make(node, 5)
        await settle(10)
        node.created.clear()
    async with cluster.manager(make_config(controllers=CONTROLLERS)):
        await settle(60)
        phases = [each.status.phase for each in await node.user.pods()]
        assert phases.count("Pending") == 5


async def test_a_changed_owner_is_tried_at_once(cluster: Cluster, node: Node) -> None:
    async with running(cluster, node):
        await make(node, 1)
        await settle(40.5)
        node.created.clear()
        await node.user.patch(REPLICASETS, "web", {"spec": {"replicas": 2}})
        await settle(100)
    assert node.of("web") == [40, 104]


async def test_healthy_pods_end_no_delay(cluster: Cluster, node: Node) -> None:
    """Only a replacement that is healthy does."""
    node.fails = lambda _: False
    async with running(cluster, node):
        await make(node, 3)
        await settle(100)
        node.fails = lambda _: True
        node.created.clear()
        await node.user.patch(REPLICASETS, "web", {"spec": {"replicas": 4}})
        await settle(50)
    assert node.of("web") == [100, 100, 101, 103, 107, 115, 131]


@pytest.mark.parametrize("seconds", [1, 11])
async def test_a_pod_that_goes_later_is_replaced_at_once(
    cluster: Cluster, node: Node, seconds: int
) -> None:
    """Nothing has failed if a user deletes it; else more than ten seconds later."""
    node.fails = lambda _: False
    async with running(cluster, node):
        await make(node, 1)
        for _ in range(8):
            await settle(seconds)
            pods = await node.user.pods()
            (pod,) = [each for each in pods if each.status.phase != "Failed"]
            name = pod.metadata.name
            if seconds == 1:
                options = DeleteOptions(grace_period_seconds=0)
                await node.user.client.delete(PODS, "default", name, options)
            else:
                await node.user.report(name, phase="Failed")
        await settle(1)
        assert len(node.of("web")) == 9
