"""Evictions while requests or watches fail."""

import asyncio
import io
from datetime import timedelta

import pytest

from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.client.rest.client import DeleteOptions, PatchType
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import LoopClock
from controller_manager.observability.logs import make_logger
from tests.clusters import EPOCH, Cluster
from tests.controllers.nodes.tainteviction.fixtures import (
    CANCELLING,
    DEDICATED,
    MARKING,
    add_pod,
    config,
    event,
    events,
    evicted,
    taint,
    tolerate,
    tolerating,
)
from tests.controllers.responses import refusal
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_an_eviction_that_fails_is_tried_again(
    cluster: Cluster, method: str
) -> None:
    """It is announced once. Upstream gives up after five tries."""
    cluster.add("Node", "a")
    add_pod(cluster, "p", tolerating(10))
    is_broken = True

    async def refuse(request: Request) -> Response | None:
        wanted = ("/nodes/a", "/pods/p", "/pods/p/status")
        if is_broken and request.method == method and request.path.endswith(wanted):
            return refusal(500, "InternalError")
        return None

    async with cluster.manager(config(), Meddler(cluster.transport, refuse)):
        await asyncio.sleep(1)
        await taint(cluster, DEDICATED)
        await asyncio.sleep(300)
        assert await evicted(cluster) == []
        is_broken = False
        await asyncio.sleep(130)
        assert await evicted(cluster) == ["p"]
    assert await events(cluster) == [event("p", MARKING)]


async def test_an_eviction_that_fails_is_cancelled_when_the_taint_goes(
    cluster: Cluster,
) -> None:
    """An event cancels it: the pod was marked for deletion before."""
    cluster.add("Node", "a")
    add_pod(cluster, "p")

    async def refuse(request: Request) -> Response | None:
        if request.method == "DELETE":
            return refusal(500, "InternalError")
        return None

    async with cluster.manager(config(), Meddler(cluster.transport, refuse)):
        await taint(cluster, DEDICATED)
        await asyncio.sleep(30)
        await taint(cluster)
        await asyncio.sleep(300)
    assert await evicted(cluster) == []
    assert await events(cluster) == [event("p", CANCELLING), event("p", MARKING)]


async def test_a_pod_stays_if_the_taint_is_gone_at_the_api_server(
    cluster: Cluster,
) -> None:
    """The watch is late; upstream evicts the pod."""
    cluster.add("Node", "a")
    add_pod(cluster, "p", tolerating(10))
    is_gone = False

    async def untaint(request: Request) -> None:
        nonlocal is_gone
        if request.method == "GET" and request.path.endswith("/nodes/a"):
            is_gone = True
            await cluster.client.patch(
                NODES, "", "a", {"spec": {"taints": None}}, PatchType.MERGE
            )

    meddler = Meddler(cluster.transport, untaint)
    async with cluster.manager(config(), meddler) as recording:
        await taint(cluster, DEDICATED)
        await asyncio.sleep(300)
        assert is_gone
        assert (await evicted(cluster), recording.writes) == ([], [])
    assert await events(cluster) == [event("p", CANCELLING)]


async def test_a_pod_whose_tolerations_have_just_changed_is_not_deleted(
    cluster: Cluster,
) -> None:
    """The response to the patch shows the tolerations that the cache lacks."""
    cluster.add("Node", "a")
    add_pod(cluster, "p", tolerating(10))

    async def tolerate_for_ever(request: Request) -> None:
        if request.method == "PATCH":
            await tolerate(cluster, "p", tolerating())

    meddler = Meddler(cluster.transport, tolerate_for_ever)
    async with cluster.manager(config(), meddler):
        await taint(cluster, DEDICATED)
        await asyncio.sleep(300)
        assert await evicted(cluster) == []


async def test_other_pods_are_evicted_while_one_cannot_be(cluster: Cluster) -> None:
    """A finalizer, a webhook or a broken object of one pod stops no other."""
    cluster.add("Node", "a")
    for number in range(20):
        add_pod(cluster, f"p-{number:02}")

    async def refuse(request: Request) -> Response | None:
        if request.method == "PATCH" and request.path.endswith("/p-00/status"):
            return refusal(422, "Invalid")
        return None

    async with cluster.manager(config(), Meddler(cluster.transport, refuse)):
        await taint(cluster, DEDICATED)
        await asyncio.sleep(5)
        assert len(await evicted(cluster)) == 19


UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}


async def test_no_pod_is_evicted_from_a_node_that_is_ready_again(
    cluster: Cluster,
) -> None:
    """The taint is removed soon; upstream evicts if the time is over before."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    cluster.add("Node", "a", status=ready)
    add_pod(cluster, "timed", tolerating(10, UNREACHABLE["key"]))
    add_pod(cluster, "at-once", tolerating(0, UNREACHABLE["key"]))
    async with cluster.manager(config()) as recording:
        await taint(cluster, UNREACHABLE)
        await asyncio.sleep(25)
        await taint(cluster)
        await asyncio.sleep(100)
        assert (await evicted(cluster), recording.writes) == ([], [])
        assert await events(cluster) == [event("timed", CANCELLING)]


async def test_a_taint_that_a_user_gives_to_a_ready_node_evicts_later(
    cluster: Cluster,
) -> None:
    """Without a node lifecycle controller, no client removes the taint."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    cluster.add("Node", "a", status=ready)
    add_pod(cluster, "p", tolerating(0, UNREACHABLE["key"]))
    async with cluster.manager(config()):
        await taint(cluster, UNREACHABLE)
        await asyncio.sleep(29)
        assert await evicted(cluster) == []
        await asyncio.sleep(3)
        assert await evicted(cluster) == ["p"]


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_wrong_clock_of_the_manager_changes_no_time(
    cluster: Cluster, hours: int
) -> None:
    """Times are measured, not compared with the time of a taint."""
    cluster.add("Node", "a")
    add_pod(cluster, "p", tolerating(60))
    wrong = LoopClock(EPOCH + timedelta(hours=hours))
    async with cluster.manager(config(), clock=wrong):
        await taint(cluster, DEDICATED)
        await asyncio.sleep(59)
        assert await evicted(cluster) == []
        await asyncio.sleep(2)
        assert await evicted(cluster) == ["p"]


async def test_a_slow_webhook_stops_no_other_eviction(cluster: Cluster) -> None:
    """Thirty pods whose deletion takes ten seconds each."""
    cluster.add("Node", "a")
    for number in range(31):
        add_pod(cluster, f"p-{number:02}")

    async def delay(request: Request) -> None:
        if request.method == "DELETE" and not request.path.endswith("/p-30"):
            await asyncio.sleep(10)

    async with cluster.manager(config(), Meddler(cluster.transport, delay)):
        await taint(cluster, DEDICATED)
        await asyncio.sleep(1)
        assert await evicted(cluster) == ["p-30"]
        await asyncio.sleep(11)
        assert len(await evicted(cluster)) == 31


async def test_pods_of_other_nodes_are_not_synced(cluster: Cluster) -> None:
    """One node of many is tainted: only its pods are synced."""
    for name in ("a", "b"):
        cluster.add("Node", name)
    for number in range(300):
        add_pod(cluster, f"p-{number:03}", tolerating(), node="b")
    add_pod(cluster, "mine", tolerating())
    log = io.StringIO()
    logger = make_logger(verbosity=4, stream=log)
    async with cluster.manager(config(), logger=logger):
        await taint(cluster, DEDICATED)
        await asyncio.sleep(5)
    synced = {
        line.partition(' key="')[2].partition('"')[0]
        for line in log.getvalue().splitlines()
        if "Finished syncing" in line
    }
    assert synced == {"a", "default/mine"}


async def test_a_deletion_whose_answer_is_lost_is_not_cancelled(
    cluster: Cluster,
) -> None:
    """The pod is marked and terminating: it was evicted, and no event cancels that."""
    cluster.add("Node", "a")
    add_pod(cluster, "p")

    async def lose(request: Request) -> Response | None:
        if request.method != "DELETE":
            return None
        await cluster.transport.request(request)
        return refusal(504, "Timeout")

    async with cluster.manager(config(), Meddler(cluster.transport, lose)):
        await taint(cluster, DEDICATED)
        await asyncio.sleep(10)
        now = DeleteOptions(grace_period_seconds=0)
        await cluster.client.delete(PODS, "default", "p", now)
        await asyncio.sleep(10)
    assert await events(cluster) == [event("p", MARKING)]


async def test_a_later_eviction_is_cancelled_also_if_the_next_one_must_wait(
    cluster: Cluster,
) -> None:
    """The event is recorded at once, as upstream."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    cluster.add("Node", "a", status=ready)
    key = UNREACHABLE["key"]
    add_pod(cluster, "p", {**tolerating(60, key), "operator": "Equal", "value": "x"})
    add_pod(cluster, "q", tolerating(60, key))
    async with cluster.manager(config()):
        await taint(cluster, {**UNREACHABLE, "value": "x"})
        await asyncio.sleep(5)
        await taint(cluster, {**UNREACHABLE, "value": "y"})
        await asyncio.sleep(5)
        assert await evicted(cluster) == []
        assert event("p", CANCELLING) in await events(cluster)
        await asyncio.sleep(30)
        assert await evicted(cluster) == ["p"]
