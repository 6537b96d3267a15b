"""Pods are evicted from tainted nodes on a cluster in memory, on virtual time."""

import asyncio
from datetime import timedelta

import msgspec
import pytest
import pytest_asyncio

from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Response
from controller_manager.clock import LoopClock
from tests.clusters import EPOCH
from tests.controllers.hands import Before
from tests.controllers.responses import refusal

from .fixtures import (
    CANCELLING,
    DEDICATED,
    MAINTENANCE,
    MARKING,
    Tainted,
    config,
    event,
    tolerating,
)

pytestmark = pytest.mark.looptime


CONDITION: JSON = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint",
    "observedGeneration": 1,
}


@pytest.fixture
async def cluster() -> Tainted:
    return Tainted()


@pytest_asyncio.fixture(name="nodes")
async def cluster_with_nodes() -> Tainted:
    return Tainted(rbac=True)


async def test_a_pod_is_marked_and_then_deleted(nodes: Tainted) -> None:
    nodes.pod("p")
    nodes.pod("elsewhere", node="b")
    async with nodes.confined_manager(config()) as recording:
        await asyncio.sleep(1)
        nodes.taint(DEDICATED)
        await asyncio.sleep(1)
        assert nodes.evicted() == ["p"]
        pod = nodes.stored(PODS, "p")
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
    assert nodes.told(counted=True) == [event("p", MARKING)]


async def test_each_pod_goes_when_its_toleration_is_over(nodes: Tainted) -> None:
    """The shortest toleration counts; a toleration without a time never ends."""
    nodes.pod("no", tolerating(60, "other"))
    nodes.pod("zero", tolerating(0), tolerating(9, "maintenance"))
    nodes.pod("ten", tolerating(10), tolerating(key="maintenance"))
    nodes.pod("both", tolerating(30), tolerating(20, "maintenance"))
    nodes.pod("forever", tolerating(), tolerating(key="maintenance"))
    nodes.pod("everything", {"operator": "Exists"})
    async with nodes.confined_manager(config()):
        nodes.taint(DEDICATED, MAINTENANCE)
        await asyncio.sleep(9.9)
        assert nodes.evicted() == ["no", "zero"]
        await asyncio.sleep(0.2)
        assert nodes.evicted() == ["no", "ten", "zero"]
        await asyncio.sleep(10)
        assert nodes.evicted() == ["both", "no", "ten", "zero"]
        await asyncio.sleep(1000)
        assert nodes.evicted() == ["both", "no", "ten", "zero"]


async def test_an_eviction_is_cancelled_when_the_taint_goes(nodes: Tainted) -> None:
    nodes.pod("p", tolerating(60))
    nodes.pod("forever", tolerating())
    async with nodes.confined_manager(config()) as recording:
        nodes.taint(DEDICATED)
        await asyncio.sleep(50)
        nodes.taint()
        await asyncio.sleep(50)
        nodes.taint(DEDICATED)
        await asyncio.sleep(59)
        assert (nodes.evicted(), recording.writes) == ([], [])
        assert nodes.told(counted=True) == [event("p", CANCELLING)]
        await asyncio.sleep(2)
        assert nodes.evicted() == ["p"]
    assert nodes.told(counted=True) == [event("p", CANCELLING), event("p", MARKING)]


async def test_a_changed_toleration_changes_no_planned_time(nodes: Tainted) -> None:
    """As upstream. A toleration for ever cancels the eviction."""
    for name in ("shorter", "longer", "endless"):
        nodes.pod(name, tolerating(60))
    async with nodes.confined_manager(config()):
        nodes.taint(DEDICATED)
        await asyncio.sleep(10)
        await nodes.tolerate("shorter", tolerating(1))
        await nodes.tolerate("longer", tolerating(600))
        await nodes.tolerate("endless", tolerating())
        await asyncio.sleep(49)
        assert nodes.evicted() == []
        await asyncio.sleep(2)
        assert nodes.evicted() == ["longer", "shorter"]
        await asyncio.sleep(1000)
        assert nodes.evicted() == ["longer", "shorter"]
    assert event("endless", CANCELLING) in nodes.told(counted=True)


async def test_a_pod_keeps_the_time_of_the_taint_that_is_left(nodes: Tainted) -> None:
    """Upstream evicts it at the time of the taint that is gone."""
    nodes.pod("p", tolerating(20), tolerating(100, "maintenance"))
    async with nodes.confined_manager(config()):
        nodes.taint(DEDICATED, MAINTENANCE)
        await asyncio.sleep(10)
        nodes.taint(MAINTENANCE)
        await asyncio.sleep(89)
        assert nodes.evicted() == []
        await asyncio.sleep(2)
        assert nodes.evicted() == ["p"]


async def test_a_taint_that_is_not_tolerated_ends_the_wait(nodes: Tainted) -> None:
    """The events say both, as upstream."""
    nodes.pod("p", tolerating(60))
    async with nodes.confined_manager(config()):
        nodes.taint(DEDICATED)
        await asyncio.sleep(10)
        nodes.taint(DEDICATED, MAINTENANCE)
        await asyncio.sleep(1)
        assert nodes.evicted() == ["p"]
    assert nodes.told(counted=True) == [event("p", CANCELLING), event("p", MARKING)]


async def test_a_pod_that_comes_to_a_tainted_node_has_its_whole_time(
    nodes: Tainted,
) -> None:
    nodes.taint(DEDICATED)
    async with nodes.confined_manager(config()):
        await asyncio.sleep(100)
        nodes.pod("late", tolerating(60))
        nodes.pod("not", node="a")
        await asyncio.sleep(59)
        assert nodes.evicted() == ["not"]
        await asyncio.sleep(2)
        assert nodes.evicted() == ["late", "not"]


async def test_a_deleted_pod_cancels_its_eviction(nodes: Tainted) -> None:
    """An event reports it, as upstream; a new pod of its name has its own time."""
    nodes.pod("p", tolerating(60))
    async with nodes.confined_manager(config()):
        nodes.taint(DEDICATED)
        await asyncio.sleep(50)
        nodes.remove(PODS, "p")
        nodes.pod("p", tolerating(60))
        await asyncio.sleep(50)
        assert nodes.evicted() == []
        await asyncio.sleep(11)
        assert nodes.evicted() == ["p"]
    assert nodes.told(counted=True) == [event("p", CANCELLING), event("p", MARKING)]


async def test_the_eviction_goes_on_when_the_node_is_gone(nodes: Tainted) -> None:
    """As upstream: without the node, it is unknown whether the pod may stay."""
    nodes.pod("p", tolerating(60))
    async with nodes.confined_manager(config()):
        nodes.taint(DEDICATED)
        await asyncio.sleep(10)
        nodes.remove(NODES, "a")
        await asyncio.sleep(49)
        assert nodes.evicted() == []
        await asyncio.sleep(2)
        assert nodes.evicted() == ["p"]


async def test_a_restart_loses_no_eviction_and_repeats_none(nodes: Tainted) -> None:
    """The time begins anew, as upstream: it is never too short."""
    nodes.pod("done")
    nodes.pod("p", tolerating(60))
    async with nodes.confined_manager(config()):
        nodes.taint(DEDICATED)
        await asyncio.sleep(30)
    async with nodes.confined_manager(config()) as recording:
        await asyncio.sleep(59)
        assert (nodes.evicted(), recording.writes) == (["done"], [])
        await asyncio.sleep(2)
        assert nodes.evicted() == ["done", "p"]
    assert nodes.told(counted=True) == [event("done", MARKING), event("p", MARKING)]


async def test_a_pod_that_a_user_has_deleted_is_marked(nodes: Tainted) -> None:
    """As upstream: if its kubelet is dead, only the condition has the reason."""
    nodes.pod("p", tolerating(20))
    async with nodes.confined_manager(config()) as recording:
        nodes.taint(DEDICATED)
        nodes.remove(PODS, "p", grace=30)
        await asyncio.sleep(21)
        assert [each.method for each in recording.writes] == ["PATCH", "DELETE"]
        await asyncio.sleep(1000)
        assert len(recording.writes) == 2


async def test_a_condition_that_is_true_already_keeps_its_time(nodes: Tainted) -> None:
    """Another controller may have set it, for another reason."""
    since = "2020-01-01T00:00:00Z"
    nodes.pod("p")
    before = {
        **CONDITION,
        "reason": "PreemptionByScheduler",
        "lastTransitionTime": since,
    }
    nodes.edit(PODS, "p", status={"conditions": [before]})
    async with nodes.confined_manager(config()):
        nodes.taint(DEDICATED)
        await asyncio.sleep(1)
    pod = nodes.stored(PODS, "p")
    (condition,) = pod["status"]["conditions"]
    times = {"lastProbeTime": None, "lastTransitionTime": since}
    assert condition == {**CONDITION, **times}


@pytest.mark.slow
async def test_a_toleration_longer_than_a_day_is_kept(nodes: Tainted) -> None:
    """Also if upstream's arithmetic would overflow."""
    nodes.pod("days", tolerating(90_000))
    nodes.pod("ages", tolerating(2**63 - 1))
    async with nodes.confined_manager(config()):
        nodes.taint(DEDICATED)
        await asyncio.sleep(89_999)
        assert nodes.evicted() == []
        await asyncio.sleep(2)
        assert nodes.evicted() == ["days"]
        await asyncio.sleep(10_000)
        assert nodes.evicted() == ["days"]


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_an_eviction_that_fails_is_tried_again(
    cluster: Tainted, method: str
) -> None:
    """It is announced once. Upstream gives up after five tries."""
    cluster.pod("p", tolerating(10))
    path = {"GET": "/nodes/a", "PATCH": "/pods/p/status", "DELETE": "/pods/p"}[method]
    error = refusal(500, "InternalError")
    refusing = Before(cluster, method, path, lambda: error, 999)
    async with cluster.manager(config(), refusing):
        await asyncio.sleep(1)
        cluster.taint(DEDICATED)
        await asyncio.sleep(300)
        assert cluster.evicted() == []
        refusing.times = 0
        await asyncio.sleep(130)
        assert cluster.evicted() == ["p"]
    assert cluster.told(counted=True) == [event("p", MARKING)]


async def test_an_eviction_that_fails_is_cancelled_when_the_taint_goes(
    cluster: Tainted,
) -> None:
    cluster.pod("p")
    error = refusal(500, "InternalError")
    refusing = Before(cluster, "DELETE", "", lambda: error, 999)
    async with cluster.manager(config(), refusing):
        cluster.taint(DEDICATED)
        await asyncio.sleep(30)
        cluster.taint()
        await asyncio.sleep(300)
    assert cluster.evicted() == []
    assert cluster.told(counted=True) == [event("p", CANCELLING), event("p", MARKING)]


async def test_a_pod_stays_if_the_taint_is_gone_at_the_api_server(
    cluster: Tainted,
) -> None:
    """The watch is late; upstream evicts the pod."""
    cluster.pod("p", tolerating(10))
    meddler = Before(cluster, "GET", "/nodes/a", cluster.taint)
    async with cluster.manager(config(), meddler) as recording:
        cluster.taint(DEDICATED)
        await asyncio.sleep(300)
        assert meddler.seen
        assert (cluster.evicted(), recording.writes) == ([], [])
    assert cluster.told(counted=True) == [event("p", CANCELLING)]


async def test_a_pod_whose_tolerations_have_just_changed_is_not_deleted(
    cluster: Tainted,
) -> None:
    cluster.pod("p", tolerating(10))
    for_ever = tolerating()
    meddler = Before(cluster, "PATCH", "", lambda: cluster.tolerate("p", for_ever))
    async with cluster.manager(config(), meddler):
        cluster.taint(DEDICATED)
        await asyncio.sleep(300)
        assert cluster.evicted() == []


async def test_other_pods_are_evicted_while_one_cannot_be(cluster: Tainted) -> None:
    for number in range(20):
        cluster.pod(f"p-{number:02}")
    error = refusal(422, "Invalid")
    refusing = Before(cluster, "PATCH", "/p-00/status", lambda: error, 999)
    async with cluster.manager(config(), refusing):
        cluster.taint(DEDICATED)
        await asyncio.sleep(5)
        assert len(cluster.evicted()) == 19


UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}


async def test_no_pod_is_evicted_from_a_node_that_is_ready_again(
    cluster: Tainted,
) -> None:
    """The taint is removed soon; upstream evicts if the time is over before."""
    cluster.ready()
    cluster.pod("timed", tolerating(10, UNREACHABLE["key"]))
    cluster.pod("at-once", tolerating(0, UNREACHABLE["key"]))
    async with cluster.manager(config()) as recording:
        cluster.taint(UNREACHABLE)
        await asyncio.sleep(25)
        cluster.taint()
        await asyncio.sleep(100)
        assert (cluster.evicted(), recording.writes) == ([], [])
        assert cluster.told(counted=True) == [event("timed", CANCELLING)]


async def test_a_taint_that_a_user_gives_to_a_ready_node_evicts_later(
    cluster: Tainted,
) -> None:
    cluster.ready()
    cluster.pod("p", tolerating(0, UNREACHABLE["key"]))
    async with cluster.manager(config()):
        cluster.taint(UNREACHABLE)
        await asyncio.sleep(29)
        assert cluster.evicted() == []
        await asyncio.sleep(3)
        assert cluster.evicted() == ["p"]


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_wrong_clock_of_the_manager_changes_no_time(
    cluster: Tainted, hours: int
) -> None:
    cluster.pod("p", tolerating(60))
    wrong = LoopClock(EPOCH + timedelta(hours=hours))
    async with cluster.manager(config(), clock=wrong):
        cluster.taint(DEDICATED)
        await asyncio.sleep(59)
        assert cluster.evicted() == []
        await asyncio.sleep(2)
        assert cluster.evicted() == ["p"]


async def test_a_deletion_whose_answer_is_lost_is_not_cancelled(
    cluster: Tainted,
) -> None:
    cluster.pod("p")

    def lose() -> Response:
        cluster.remove(PODS, "p", grace=30)
        return refusal(504, "Timeout")

    async with cluster.manager(config(), Before(cluster, "DELETE", "/p", lose)):
        cluster.taint(DEDICATED)
        await asyncio.sleep(10)
        cluster.remove(PODS, "p")
        await asyncio.sleep(10)
    assert cluster.told(counted=True) == [event("p", MARKING)]


async def test_a_later_eviction_is_cancelled_also_if_the_next_one_must_wait(
    cluster: Tainted,
) -> None:
    """The event is recorded at once, as upstream."""
    cluster.ready()
    key = UNREACHABLE["key"]
    cluster.pod("p", {**tolerating(60, key), "operator": "Equal", "value": "x"})
    cluster.pod("q", tolerating(60, key))
    async with cluster.manager(config()):
        cluster.taint({**UNREACHABLE, "value": "x"})
        await asyncio.sleep(5)
        cluster.taint({**UNREACHABLE, "value": "y"})
        await asyncio.sleep(5)
        assert cluster.evicted() == []
        assert event("p", CANCELLING) in cluster.told(counted=True)
        await asyncio.sleep(30)
        assert cluster.evicted() == ["p"]
