"""Pods that fail as soon as they exist are replaced with a growing delay."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from controller_manager.api.apps.v1 import STATEFUL_SETS
from controller_manager.api.core.v1 import NODES, PODS, Pod
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.controllers.apps.statefulset.failures import FailedPods
from controller_manager.controllers.apps.statefulset.ordering import (
    plan_sync,
    seconds_until_change,
)
from tests.clusters import EPOCH, Cluster, RecordingTransport, make_config
from tests.controllers.apps.failing_node import Node
from tests.controllers.apps.statefulset.builders import (
    pod,
    replicas_of,
    stateful_set,
    stateful_set_json,
)
from tests.controllers.builders import template
from tests.controllers.user import settle

pytestmark = pytest.mark.looptime

POLICIES = ["OrderedReady", "Parallel"]
AT_ONCE = DeleteOptions(grace_period_seconds=0)
FAILED = {"status": {"phase": "Failed"}}
NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


@pytest.fixture
def node(cluster: Cluster) -> Node:
    return Node(cluster)


@asynccontextmanager
async def running(
    cluster: Cluster, node: Node
) -> AsyncGenerator[RecordingTransport, None]:
    names = ("statefulset-controller", "taint-eviction-controller")
    config = make_config(controllers=names)
    async with cluster.manager(config) as recording, node.running():
        yield recording


async def make(node: Node, replicas: int = 1, **spec: Any) -> None:
    await node.user.create(STATEFUL_SETS, stateful_set_json(replicas=replicas, **spec))


async def edit(node: Node, **spec: Any) -> None:
    await node.user.patch(STATEFUL_SETS, "web", {"spec": spec})


async def delete(node: Node, name: str) -> None:
    await node.user.client.delete(PODS, "default", name, AT_ONCE)


async def phases(node: Node) -> dict[str, str]:
    return {each.metadata.name: each.status.phase for each in await node.user.pods()}


def is_second(each: Pod) -> bool:
    return each.metadata.name == "web-1"


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
async def test_the_delay_doubles(
    cluster: Cluster, node: Node, policy: str, *, deletes: bool
) -> None:
    """The first failed pod is replaced at once; each name counts alone."""
    node.deletes = deletes
    async with running(cluster, node):
        await make(node, 3, podManagementPolicy=policy)
        await settle(140)
    expected = [0, 0, 1, 3, 7, 15, 31, 63, 127]
    others = [] if policy == "OrderedReady" else expected
    made = [node.of_pod(f"web-{each}") for each in range(3)]
    assert made == [expected, others, others]


async def test_a_failed_pod_stays_while_it_waits(cluster: Cluster, node: Node) -> None:
    """As daemon pods do: a user can see why it failed."""
    async with running(cluster, node):
        await make(node)
        await settle(20)
        assert await phases(node) == {"web-0": "Failed"}


def test_the_delay_ends_at_fifteen_minutes() -> None:
    """A pod after the other fails."""

    class Ticking:
        seconds = 0.0

        def now(self) -> datetime:
            return EPOCH

        def monotonic(self) -> float:
            return self.seconds

    clock, owner = Ticking(), stateful_set(1)
    failures, delays = FailedPods(clock, clock), []
    for number in range(14):
        failed = pod(0, uid=f"p{number}", phase="Failed", created="", ready=False)
        held = failures.observe(owner, [failed])
        delays.append(held.get("web-0"))
        clock.seconds += held.get("web-0", 0.0)
        assert failures.observe(owner, [failed]) == {}
    assert delays == [None, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]


async def test_other_pods_are_not_slowed(cluster: Cluster, node: Node) -> None:
    """With Parallel: other names, another size, an update."""
    node.fails = is_second
    async with running(cluster, node):
        await make(node, 3, podManagementPolicy="Parallel")
        await settle(20)
        for _ in range(4):
            await delete(node, "web-2")
            await settle(0.5)
        assert len(node.of_pod("web-2")) == 5
        await edit(node, replicas=5)
        await settle(1)
        assert await phases(node) == {
            f"web-{each}": "Failed" if each == 1 else "Running" for each in range(5)
        }
        await edit(node, replicas=1)
        await settle(1)
        assert await phases(node) == {"web-0": "Running"}


async def test_a_repaired_template_is_rolled_out_at_once(
    cluster: Cluster, node: Node
) -> None:
    """A change of the set makes its pods due; the delay after that is the next one."""
    node.fails = lambda each: (each.metadata.labels or {}).get("bad") == "yes"
    bad, good = ({"metadata": {"labels": {"bad": each}}} for each in ("yes", "no"))
    async with running(cluster, node):
        await make(node, 2)
        await settle(20)
        node.created.clear()
        await edit(node, template=bad)
        await settle(40.5)
        assert node.of_pod("web-1") == [20, 20, 21, 23, 27, 35, 51]
        await edit(node, minReadySeconds=1)
        await settle(1)
        assert node.of_pod("web-1")[7:] == [60]
        await edit(node, template=good)
        await settle(1)
        assert await phases(node) == {"web-0": "Running", "web-1": "Running"}


async def test_a_ready_pod_ends_the_delay(cluster: Cluster, node: Node) -> None:
    """For its name: then a failure is the first one."""
    async with running(cluster, node):
        await make(node)
        await settle(20)
        node.fails = lambda _: False
        await settle(20)
        node.fails = lambda _: True
        node.created.clear()
        await delete(node, "web-0")
        await settle(10)
    assert node.of_pod("web-0") == [40, 40, 41, 43, 47]


async def test_a_pod_that_waits_for_an_image_ends_the_delay(
    cluster: Cluster, node: Node
) -> None:
    """After ten seconds: it has not failed at once."""
    async with cluster.manager(make_config(controllers=("statefulset-controller",))):
        async with node.running():
            await make(node)
            await settle(10)
        await settle(60)
        assert await phases(node) == {"web-0": "Pending"}
        for _ in range(3):
            name = "web-0"
            await node.user.client.patch(
                PODS, "default", name, FAILED, subresource="status"
            )
            await settle(0.5)
            assert await phases(node) == {"web-0": "Pending"}
            await settle(11)


async def test_a_pod_that_fails_later_is_replaced_at_once(
    cluster: Cluster, node: Node
) -> None:
    """More than ten seconds after its creation."""
    node.fails = lambda _: False
    async with running(cluster, node):
        await make(node)
        for _ in range(8):
            await settle(11)
            await node.user.client.patch(
                PODS, "default", "web-0", FAILED, subresource="status"
            )
            await settle(0.5)
    assert len(node.of_pod("web-0")) == 9


async def test_a_user_who_deletes_a_waiting_pod_gets_another_one(
    cluster: Cluster, node: Node
) -> None:
    """At once; the next delay is longer."""
    async with running(cluster, node):
        await make(node)
        await settle(42)
        node.created.clear()
        await delete(node, "web-0")
        await settle(70)
    assert node.of_pod("web-0") == [42, 106]


async def test_a_sync_that_fails_keeps_the_delay(cluster: Cluster, node: Node) -> None:
    """Another owner has the name of a pod, so each sync fails."""
    foreign = {"metadata": {"name": "web-1"}, "spec": template()["spec"]}
    node.fails = lambda each: each.metadata.name == "web-0"
    async with running(cluster, node):
        await node.user.create(PODS, foreign)
        await make(node, 2, podManagementPolicy="Parallel")
        await settle(140)
        assert await node.user.events("FailedCreate")
    assert node.of_pod("web-0") == [0, 0, 1, 3, 7, 15, 31, 63, 127]


async def test_pods_on_a_tainted_node_are_created_with_a_delay(
    cluster: Cluster, node: Node
) -> None:
    """The taint-eviction-controller deletes each of them at once."""
    body = template(app="web")
    body["spec"]["nodeName"] = "node-0"
    config = make_config(
        controllers=("statefulset-controller", "taint-eviction-controller")
    )
    async with cluster.nodes(), cluster.manager(config) as recording:
        taint = {"key": "k", "effect": "NoExecute"}
        await node.user.client.patch(NODES, "", "node-0", {"spec": {"taints": [taint]}})
        await settle(5)
        await make(node, template=body)
        await settle(100)
    paths = [each.path for each in recording.writes if each.method == "POST"]
    assert 5 < len([each for each in paths if each.endswith("/pods")]) < 12


async def test_nothing_is_remembered_of_a_set_that_is_gone(
    cluster: Cluster, node: Node
) -> None:
    """A new one of its name begins without a delay."""
    async with running(cluster, node):
        await make(node)
        await settle(20)
        node.created.clear()
        await node.user.client.delete(STATEFUL_SETS, "default", "web")
        await settle(5)
        for each in await node.user.pods():
            await delete(node, each.metadata.name)
        await make(node)
        await settle(1.8)
    assert node.of_pod("web-0") == [25, 25, 26]


def test_names_that_are_not_wanted_are_forgotten() -> None:
    """Neither those that were scaled away nor those of a set that is gone stay."""

    class Standing:
        def now(self) -> datetime:
            return EPOCH

        def monotonic(self) -> float:
            return 0.0

    failures = FailedPods(Standing(), Standing())
    failed = pod(2, phase="Failed", created="", ready=False)
    failures.observe(stateful_set(3), [failed])
    assert "default/web" in failures
    failures.observe(stateful_set(2), [failed])
    assert "default/web" not in failures
    failures.gone("default/web", failed)
    failures.forget("default/web")
    assert "default/web" not in failures


@pytest.mark.parametrize("present", [True, False])
def test_a_held_pod_is_neither_deleted_nor_created(*, present: bool) -> None:
    """The next sync comes when the first delay ends."""
    failed = (pod(1, phase="Failed", ready=False),) if present else ()
    seen = replicas_of(stateful_set(3), pod(0), *failed)
    seen = replace(seen, held={"web-1": 8.0, "web-2": 4.0})
    assert seconds_until_change(seen, NOW) == 4.0
    assert len(plan_sync(seen, NOW).reasons) == 1
