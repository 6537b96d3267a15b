"""Nodes on which each pod of a daemon set fails as soon as it exists."""

import asyncio
from typing import Any, Final

import pytest

from controller_manager.clock import LoopClock
from controller_manager.controllers.apps.daemonset.backoff import (
    NO_DELAYS,
    Delays,
    FailedPodBackoff,
)
from controller_manager.controllers.apps.daemonset.nodes import target_of
from tests.clusters import EPOCH, Cluster
from tests.controllers.apps.daemonset.builders import running
from tests.controllers.apps.failing_node import Node
from tests.controllers.user import settle

pytestmark = pytest.mark.looptime

STRATEGIES: Final[dict[str, dict[str, Any]]] = {
    "surge": {"maxSurge": 1, "maxUnavailable": 0},
    "percentage": {"maxSurge": "50%", "maxUnavailable": 0},
    "unavailable": {"maxUnavailable": 1},
    "on delete": {},
}
DELAYED: Final = [0, 0, 1, 3, 7, 15]
"""The seconds at which a failing node gets its pods: each delay is twice the last."""


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> dict[str, Any]:
    if rolling := STRATEGIES[request.param]:
        return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
    return {"updateStrategy": {"type": "OnDelete"}}


@pytest.fixture
def node(cluster: Cluster) -> Node:
    """Return the kubelets of all nodes but n2."""
    node = Node(cluster)
    node.fails = lambda pod: target_of(pod) != "n2"
    return node


@pytest.mark.parametrize("reason", ["Evicted", "OutOfcpu"])
async def test_nodes_that_fail_all_pods_get_few_of_them(
    cluster: Cluster, node: Node, strategy: dict[str, Any], reason: str
) -> None:
    """Upstream makes eight pods a second with maxSurge.

    A node that works keeps its pod; each failing one has its own delays.
    """
    node.reason = reason
    async with running(cluster, "n1", "n2", "n3", **strategy) as (operator, _):
        async with node.running():
            await settle(30)
        assert [node.on(each) for each in ("n1", "n2", "n3")] == [DELAYED, [0], DELAYED]
        assert len(await operator.pods()) == 3
        assert await operator.numbers() == (3, 3, 3, 1, 0)


async def test_failed_pods_that_others_delete_at_once_are_few(
    cluster: Cluster, node: Node, strategy: dict[str, Any]
) -> None:
    """The node then has no pod until the delay ends. Upstream makes one at once."""
    node.deletes = True
    async with running(cluster, "n1", "n2", **strategy) as (operator, _):
        async with node.running():
            await settle(30)
        assert node.on("n1") == DELAYED
        assert (await operator.placed()).keys() == {"n2"}
        assert await operator.numbers() == (2, 1, 1, 1, 0)
        await settle(2)
        assert (await operator.placed()).keys() == {"n1", "n2"}


async def test_a_node_that_works_again_gets_its_pod_when_the_delay_ends(
    cluster: Cluster, node: Node, strategy: dict[str, Any]
) -> None:
    """No event of the cluster tells that; the timer of the delay does."""
    async with running(cluster, "n1", **strategy) as (operator, recording):
        async with node.running():
            await settle(20)
        before = len(recording.writes)
        (failed,) = await operator.pods()
        await settle(10)
        (still,) = await operator.pods()
        assert still.metadata.uid == failed.metadata.uid
        assert len(recording.writes) == before
        await settle(2)
        await operator.run_all()
        (pod,) = await operator.pods()
        assert pod.metadata.uid != failed.metadata.uid
        assert pod.status.phase == "Running"
        assert await operator.numbers() == (1, 1, 1, 1, 0)


NODES = {"n1", "n2"}


def delay(backoff: FailedPodBackoff, node: str = "n1") -> float:
    """Return the delay of a node in whole seconds, 0 for none."""
    return round(backoff.delays("a/b", 1, NODES).failed.get(node, 0.0))


def failing(*uids: str) -> FailedPodBackoff:
    """Return a backoff after failed pods of a node were replaced."""
    backoff = FailedPodBackoff(LoopClock(EPOCH))
    for uid in uids:
        backoff.replaced("a/b", 1, "n1", uid)
    return backoff


async def test_the_delay_doubles_up_to_a_quarter_of_an_hour() -> None:
    """The first failed pod is replaced at once, and each node counts alone.

    The rest of a delay is returned, so the next sync comes when the delay ends.
    """
    backoff = failing()
    assert delay(backoff) == 0
    seen = []
    for _ in range(12):
        backoff.replaced("a/b", 1, "n1", "p")
        seen.append(delay(backoff))
        assert delay(backoff, "n2") == 0
        await asyncio.sleep(seen[-1] / 4)
        assert delay(backoff) == round(seen[-1] * 3 / 4)
        await asyncio.sleep(seen[-1] * 3 / 4)
        assert delay(backoff) == 0
    assert seen == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]


async def test_after_half_an_hour_it_begins_again() -> None:
    """After twice the longest delay, as in upstream."""
    backoff = failing("p", "p")
    await asyncio.sleep(1801)
    assert delay(backoff) == 0
    backoff.replaced("a/b", 1, "n1", "p")
    assert delay(backoff) == 1


async def test_another_generation_begins_again() -> None:
    """A new template may repair the failure."""
    backoff = failing()
    backoff.replaced("a/b", 0, "n1", "p")
    assert backoff.delays("a/b", 1, NODES) == NO_DELAYS
    backoff.replaced("a/b", 0, "n1", "p")
    backoff.replaced("a/b", 1, "n1", "p")
    assert delay(backoff) == 1


async def test_a_failed_pod_that_others_delete_is_replaced_after_the_delay() -> None:
    """Its creation is the replacement; several events tell of one deletion."""
    backoff = failing()
    backoff.deleted_by_others("a/b", 1, "n1", "p1")
    assert backoff.delays("a/b", 1, NODES) == NO_DELAYS
    backoff.created("a/b", 1, "n1")
    backoff.deleted_by_others("a/b", 1, "n1", "p1")
    assert backoff.delays("a/b", 1, NODES) == Delays({"n1": 1.0}, {})
    backoff.deleted_by_others("a/b", 1, "n1", "p2")
    assert backoff.delays("a/b", 1, NODES) == Delays({"n1": 1.0}, {"n1": 1.0})
    await asyncio.sleep(1)
    assert backoff.delays("a/b", 1, NODES) == NO_DELAYS
    backoff.created("a/b", 1, "n1")
    backoff.created("a/b", 1, "n1")
    assert backoff.delays("a/b", 1, NODES) == Delays({"n1": 2.0}, {})
    backoff.replaced("a/b", 1, "n1", "p3")
    backoff.deleted_by_others("a/b", 1, "n1", "p3")
    assert backoff.delays("a/b", 1, NODES) == Delays({"n1": 4.0}, {})


async def test_no_failures_are_kept_of_objects_that_are_gone() -> None:
    """Of daemon sets that are gone, and of nodes where no pod may run."""
    backoff = failing("p")
    backoff.replaced("a/b", 1, "n3", "p")
    assert set(backoff.delays("a/b", 1, NODES).failed) == {"n1"}
    assert set(backoff.delays("a/b", 1, {"n1", "n3"}).failed) == {"n1"}
    backoff.replaced("c/d", 1, "n1", "p")
    backoff.forget("c/d")
    assert len(backoff) == 1
    assert (backoff.delays("a/b", 1, set()), len(backoff)) == (NO_DELAYS, 0)


class Ticks(LoopClock):
    """A clock that shows given times, one after the other."""

    def __init__(self, *times: float) -> None:
        super().__init__(EPOCH)
        self._times = iter(times)

    def monotonic(self) -> float:
        return next(self._times)


async def test_an_error_of_floating_point_is_no_delay() -> None:
    """On virtual time, waiting for it would never end."""
    began = 1.4000000000000001
    assert began + 1 > 2.4
    backoff = FailedPodBackoff(Ticks(began, 2.4))
    backoff.replaced("a/b", 1, "n1", "p")
    assert backoff.delays("a/b", 1, NODES) == NO_DELAYS
