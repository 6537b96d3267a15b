"""Pods are evicted from tainted nodes on a cluster in memory, on virtual time."""

import asyncio
from datetime import timedelta

import msgspec
import pytest
import pytest_asyncio

from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import DeleteOptions, PatchType
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import LoopClock
from tests.clusters import EPOCH, Cluster
from tests.controllers.nodes.tainteviction.fixtures import (
    CANCELLING,
    DEDICATED,
    MAINTENANCE,
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


CONDITION: JSON = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint",
    "observedGeneration": 1,
}


@pytest_asyncio.fixture(name="nodes")
async def cluster_with_nodes() -> Cluster:
    cluster = Cluster(rbac=True)
    cluster.add("Node", "a")
    cluster.add("Node", "b")
    return cluster


async def test_a_pod_is_marked_and_then_deleted(nodes: Cluster) -> None:
    add_pod(nodes, "p")
    add_pod(nodes, "elsewhere", node="b")
    async with nodes.confined_manager(config()) as recording:
        await asyncio.sleep(1)
        await taint(nodes, DEDICATED)
        await asyncio.sleep(1)
        assert await evicted(nodes) == ["p"]
        pod = await nodes.client.get_json(PODS, "default", "p")
    sent = [
        (each.method, each.path.rpartition("/pods/")[2]) for each in recording.writes
    ]
    assert sent == [("PATCH", "p/status"), ("DELETE", "p")]
    bodies: list[JSON] = [msgspec.json.decode(each.body) for each in recording.writes]
    uid = pod["metadata"]["uid"]
    (condition,) = bodies[0]["status"]["conditions"]
    assert condition.pop("lastTransitionTime")
    assert (bodies[0]["metadata"], condition) == ({"uid": uid}, CONDITION)
    assert bodies[1] == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": uid},
    }
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert await events(nodes) == [event("p", MARKING)]


async def test_each_pod_goes_when_its_toleration_is_over(nodes: Cluster) -> None:
    """The shortest toleration counts; a toleration without a time never ends."""
    add_pod(nodes, "no", tolerating(60, "other"))
    add_pod(nodes, "zero", tolerating(0), tolerating(9, "maintenance"))
    add_pod(nodes, "ten", tolerating(10), tolerating(key="maintenance"))
    add_pod(nodes, "both", tolerating(30), tolerating(20, "maintenance"))
    add_pod(nodes, "forever", tolerating(), tolerating(key="maintenance"))
    add_pod(nodes, "everything", {"operator": "Exists"})
    async with nodes.confined_manager(config()):
        await taint(nodes, DEDICATED, MAINTENANCE)
        await asyncio.sleep(9.9)
        assert await evicted(nodes) == ["no", "zero"]
        await asyncio.sleep(0.2)
        assert await evicted(nodes) == ["no", "ten", "zero"]
        await asyncio.sleep(10)
        assert await evicted(nodes) == ["both", "no", "ten", "zero"]
        await asyncio.sleep(1000)
        assert await evicted(nodes) == ["both", "no", "ten", "zero"]


async def test_an_eviction_is_cancelled_when_the_taint_goes(nodes: Cluster) -> None:
    add_pod(nodes, "p", tolerating(60))
    add_pod(nodes, "forever", tolerating())
    async with nodes.confined_manager(config()) as recording:
        await taint(nodes, DEDICATED)
        await asyncio.sleep(50)
        await taint(nodes)
        await asyncio.sleep(50)
        await taint(nodes, DEDICATED)
        await asyncio.sleep(59)
        assert (await evicted(nodes), recording.writes) == ([], [])
        assert await events(nodes) == [event("p", CANCELLING)]
        await asyncio.sleep(2)
        assert await evicted(nodes) == ["p"]
    assert await events(nodes) == [event("p", CANCELLING), event("p", MARKING)]


async def test_a_changed_toleration_changes_no_planned_time(nodes: Cluster) -> None:
    """As upstream. A toleration for ever cancels the eviction."""
    for name in ("shorter", "longer", "endless"):
        add_pod(nodes, name, tolerating(60))
    async with nodes.confined_manager(config()):
        await taint(nodes, DEDICATED)
        await asyncio.sleep(10)
        await tolerate(nodes, "shorter", tolerating(1))
        await tolerate(nodes, "longer", tolerating(600))
        await tolerate(nodes, "endless", tolerating())
        await asyncio.sleep(49)
        assert await evicted(nodes) == []
        await asyncio.sleep(2)
        assert await evicted(nodes) == ["longer", "shorter"]
        await asyncio.sleep(1000)
        assert await evicted(nodes) == ["longer", "shorter"]
    assert event("endless", CANCELLING) in await events(nodes)


async def test_a_pod_keeps_the_time_of_the_taint_that_is_left(nodes: Cluster) -> None:
    """Upstream evicts it at the time of the taint that is gone."""
    add_pod(nodes, "p", tolerating(20), tolerating(100, "maintenance"))
    async with nodes.confined_manager(config()):
        await taint(nodes, DEDICATED, MAINTENANCE)
        await asyncio.sleep(10)
        await taint(nodes, MAINTENANCE)
        await asyncio.sleep(89)
        assert await evicted(nodes) == []
        await asyncio.sleep(2)
        assert await evicted(nodes) == ["p"]


async def test_a_taint_that_is_not_tolerated_ends_the_wait(nodes: Cluster) -> None:
    """The events say both, as upstream."""
    add_pod(nodes, "p", tolerating(60))
    async with nodes.confined_manager(config()):
        await taint(nodes, DEDICATED)
        await asyncio.sleep(10)
        await taint(nodes, DEDICATED, MAINTENANCE)
        await asyncio.sleep(1)
        assert await evicted(nodes) == ["p"]
    assert await events(nodes) == [event("p", CANCELLING), event("p", MARKING)]


async def test_a_pod_that_comes_to_a_tainted_node_has_its_whole_time(
    nodes: Cluster,
) -> None:
    await taint(nodes, DEDICATED)
    async with nodes.confined_manager(config()):
        await asyncio.sleep(100)
        add_pod(nodes, "late", tolerating(60))
        add_pod(nodes, "not", node="a")
        await asyncio.sleep(59)
        assert await evicted(nodes) == ["not"]
        await asyncio.sleep(2)
        assert await evicted(nodes) == ["late", "not"]


async def test_a_deleted_pod_cancels_its_eviction(nodes: Cluster) -> None:
    """An event reports it, as upstream; a new pod of its name has its own time."""
    add_pod(nodes, "p", tolerating(60))
    now = DeleteOptions(grace_period_seconds=0)
    async with nodes.confined_manager(config()):
        await taint(nodes, DEDICATED)
        await asyncio.sleep(50)
        await nodes.client.delete(PODS, "default", "p", now)
        add_pod(nodes, "p", tolerating(60))
        await asyncio.sleep(50)
        assert await evicted(nodes) == []
        await asyncio.sleep(11)
        assert await evicted(nodes) == ["p"]
    assert await events(nodes) == [event("p", CANCELLING), event("p", MARKING)]


async def test_the_eviction_goes_on_when_the_node_is_gone(nodes: Cluster) -> None:
    """As upstream: without the node, it is unknown whether the pod may stay."""
    add_pod(nodes, "p", tolerating(60))
    async with nodes.confined_manager(config()):
        await taint(nodes, DEDICATED)
        await asyncio.sleep(10)
        await nodes.client.delete(NODES, "", "a")
        await asyncio.sleep(49)
        assert await evicted(nodes) == []
        await asyncio.sleep(2)
        assert await evicted(nodes) == ["p"]


async def test_a_restart_loses_no_eviction_and_repeats_none(nodes: Cluster) -> None:
    """The time begins anew, as upstream: it is never too short."""
    add_pod(nodes, "done")
    add_pod(nodes, "p", tolerating(60))
    async with nodes.confined_manager(config()):
        await taint(nodes, DEDICATED)
        await asyncio.sleep(30)
    async with nodes.confined_manager(config()) as recording:
        await asyncio.sleep(59)
        assert (await evicted(nodes), recording.writes) == (["done"], [])
        await asyncio.sleep(2)
        assert await evicted(nodes) == ["done", "p"]
    assert await events(nodes) == [event("done", MARKING), event("p", MARKING)]


async def test_a_pod_that_a_user_has_deleted_is_marked(nodes: Cluster) -> None:
    """As upstream: if its kubelet is dead, only the condition has the reason."""
    add_pod(nodes, "p", tolerating(20))
    async with nodes.confined_manager(config()) as recording:
        await taint(nodes, DEDICATED)
        await nodes.client.delete(PODS, "default", "p")
        await asyncio.sleep(21)
        assert [each.method for each in recording.writes] == ["PATCH", "DELETE"]
        await asyncio.sleep(1000)
        assert len(recording.writes) == 2


async def test_a_condition_that_is_true_already_keeps_its_time(nodes: Cluster) -> None:
    """Another controller may have set it, for another reason."""
    since = "2020-01-01T00:00:00Z"
    add_pod(nodes, "p")
    before = {
        **CONDITION,
        "reason": "PreemptionByScheduler",
        "lastTransitionTime": since,
    }
    patch = {"status": {"conditions": [before]}}
    kind = PatchType.STRATEGIC
    await nodes.client.patch(PODS, "default", "p", patch, kind, "status")
    async with nodes.confined_manager(config()):
        await taint(nodes, DEDICATED)
        await asyncio.sleep(1)
    pod = await nodes.client.get_json(PODS, "default", "p")
    (condition,) = pod["status"]["conditions"]
    assert condition == {
        **CONDITION,
        "lastProbeTime": None,
        "lastTransitionTime": since,
    }


@pytest.mark.slow
async def test_a_toleration_longer_than_a_day_is_kept(nodes: Cluster) -> None:
    """Also if upstream's arithmetic would overflow."""
    add_pod(nodes, "days", tolerating(90_000))
    add_pod(nodes, "ages", tolerating(2**63 - 1))
    async with nodes.confined_manager(config()):
        await taint(nodes, DEDICATED)
        await asyncio.sleep(89_999)
        assert await evicted(nodes) == []
        await asyncio.sleep(2)
        assert await evicted(nodes) == ["days"]
        await asyncio.sleep(10_000)
        assert await evicted(nodes) == ["days"]


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
    cluster.add("Node", "a")
    add_pod(cluster, "p", tolerating(60))
    wrong = LoopClock(EPOCH + timedelta(hours=hours))
    async with cluster.manager(config(), clock=wrong):
        await taint(cluster, DEDICATED)
        await asyncio.sleep(59)
        assert await evicted(cluster) == []
        await asyncio.sleep(2)
        assert await evicted(cluster) == ["p"]


async def test_a_deletion_whose_answer_is_lost_is_not_cancelled(
    cluster: Cluster,
) -> None:
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
