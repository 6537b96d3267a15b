"""Nodes on which each pod of a daemon set fails as soon as it exists."""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import pytest

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.client.rest.errors import NotFound
from controller_manager.clock import LoopClock
from controller_manager.controllers.apps.daemonset.backoff import (
    NO_DELAYS,
    Delays,
    FailedPodBackoff,
)
from controller_manager.controllers.apps.daemonset.nodes import target_of
from tests.clusters import EPOCH, Cluster
from tests.controllers.apps.daemonset.builders import Operator, running
from tests.controllers.user import settle

pytestmark = pytest.mark.looptime


_STEP: Final = 0.05
"""Seconds between two looks of a kubelet at its pods."""

EVICTED: Final[JSON] = {"phase": "Failed", "reason": "Evicted"}
REJECTED: Final[JSON] = {"phase": "Failed", "reason": "OutOfcpu"}
STRATEGIES: Final[dict[str, Any]] = {
    "surge": {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    },
    "percentage": {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0},
    },
    "unavailable": {"type": "RollingUpdate"},
    "on delete": {"type": "OnDelete"},
}
DELAYED: Final = [0, 0, 1, 3, 7, 15]
"""The seconds at which a failing node gets its pods: each delay is twice the last."""


class Kubelets:
    """The kubelets of nodes that fail the pods of one version, or all pods."""

    def __init__(self, operator: Operator, nodes: Collection[str]) -> None:
        self.operator = operator
        self.nodes = nodes
        self.status = EVICTED
        self.bad_version: str | None = None
        self.deletes = False
        """True if somebody deletes each failed pod at once."""

        self.created: dict[str, list[int]] = {node: [] for node in nodes}
        """The seconds at which the pods of a node were seen first, by node."""

        self._seen: set[str] = set()

    async def run(self) -> None:
        """Fail pods until this is cancelled."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            for pod in await self.operator.pods():
                node, uid = target_of(pod), pod.metadata.uid
                if node in self.nodes and uid not in self._seen and self._is_bad(pod):
                    self._seen.add(uid)
                    self.created[node].append(int(loop.time() - began))
                    with suppress(NotFound):
                        await self._fail(pod.metadata.name)
            await asyncio.sleep(_STEP)

    def _is_bad(self, pod: Pod) -> bool:
        version = (pod.metadata.labels or {}).get("version", "1")
        return self.bad_version is None or version == self.bad_version

    async def _fail(self, name: str) -> None:
        client, status = self.operator.client, {"status": self.status}
        await client.patch(PODS, "default", name, status, subresource="status")
        if self.deletes:
            await client.delete(PODS, "default", name, DeleteOptions())


@asynccontextmanager
async def failing(
    operator: Operator, *nodes: str, **settings: Any
) -> AsyncGenerator[Kubelets, None]:
    """Run the kubelets of failing nodes."""
    kubelets = Kubelets(operator, nodes)
    for name, value in settings.items():
        setattr(kubelets, name, value)
    task = asyncio.create_task(kubelets.run())
    try:
        yield kubelets
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("status", [EVICTED, REJECTED])
async def test_a_node_that_fails_all_pods_gets_few_of_them(
    cluster: Cluster, strategy: str, status: JSON
) -> None:
    """Upstream makes eight pods a second with maxSurge."""
    spec: dict[str, Any] = {"updateStrategy": STRATEGIES[strategy]}
    async with running(cluster, "n1", **spec) as (operator, _):
        async with failing(operator, "n1", status=status) as kubelets:
            await settle(30)
        assert kubelets.created == {"n1": DELAYED}
        assert len(await operator.pods()) == 1
        assert await operator.numbers() == (1, 1, 1, 0, 0)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_failed_pods_that_others_delete_at_once_are_few(
    cluster: Cluster, strategy: str
) -> None:
    """The node then has no pod until the delay ends. Upstream makes one at once."""
    spec: dict[str, Any] = {"updateStrategy": STRATEGIES[strategy]}
    async with running(cluster, "n1", "n2", **spec) as (operator, _):
        async with failing(operator, "n1", deletes=True) as kubelets:
            await settle(30)
        assert kubelets.created == {"n1": DELAYED}
        assert (await operator.placed()).keys() == {"n2"}
        assert await operator.numbers() == (2, 1, 1, 0, 0)
        await settle(2)
        assert (await operator.placed()).keys() == {"n1", "n2"}


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_each_node_that_fails_its_pods_waits_alone(
    cluster: Cluster, strategy: str
) -> None:
    """A node that works keeps its pod; each failing one has its own delays."""
    spec: dict[str, Any] = {"updateStrategy": STRATEGIES[strategy]}
    async with running(cluster, "n1", "n2", "n3", **spec) as (operator, _):
        async with failing(operator, "n1", "n2") as kubelets:
            await operator.bind(
                next(each for each in await operator.pods() if target_of(each) == "n3")
            )
            await settle(30)
        assert kubelets.created == {"n1": DELAYED, "n2": DELAYED}
        assert await operator.numbers() == (3, 3, 3, 1, 0)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_node_that_works_again_gets_its_pod_when_the_delay_ends(
    cluster: Cluster, strategy: str
) -> None:
    """No event of the cluster tells that; the timer of the delay does."""
    spec: dict[str, Any] = {"updateStrategy": STRATEGIES[strategy]}
    async with running(cluster, "n1", **spec) as (operator, recording):
        async with failing(operator, "n1"):
            await settle(20)
        before = len(recording.writes)
        (failed,) = await operator.pods()
        await settle(10)
        assert [pod.metadata.uid for pod in await operator.pods()] == [
            failed.metadata.uid
        ]
        assert len(recording.writes) == before
        await settle(2)
        await operator.run_all()
        (pod,) = await operator.pods()
        assert (pod.metadata.uid != failed.metadata.uid, pod.status.phase) == (
            True,
            "Running",
        )
        assert await operator.numbers() == (1, 1, 1, 1, 0)


NODES = {"n1", "n2"}


def delay(backoff: FailedPodBackoff, node: str = "n1") -> float:
    """Return the delay of a node in whole seconds, 0 for none."""
    return round(backoff.delays("a/b", 1, NODES).failed.get(node, 0.0))


async def test_the_delay_doubles_up_to_a_quarter_of_an_hour() -> None:
    """The first failed pod is replaced at once, and each node counts alone."""
    backoff = FailedPodBackoff(LoopClock(EPOCH))
    assert delay(backoff) == 0
    seen = []
    for _ in range(12):
        backoff.replaced("a/b", 1, "n1", "p")
        seen.append(delay(backoff))
        assert delay(backoff, "n2") == 0
        await asyncio.sleep(seen[-1])
        assert delay(backoff) == 0
    assert seen == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]


async def test_the_rest_of_a_delay_is_returned() -> None:
    """So the next sync comes when the delay ends."""
    backoff = FailedPodBackoff(LoopClock(EPOCH))
    for _ in range(4):
        backoff.replaced("a/b", 1, "n1", "p")
    await asyncio.sleep(5)
    assert delay(backoff) == 3


async def test_after_half_an_hour_it_begins_again() -> None:
    """After twice the longest delay, as in upstream."""
    backoff = FailedPodBackoff(LoopClock(EPOCH))
    backoff.replaced("a/b", 1, "n1", "p")
    backoff.replaced("a/b", 1, "n1", "p")
    await asyncio.sleep(1801)
    assert delay(backoff) == 0
    backoff.replaced("a/b", 1, "n1", "p")
    assert delay(backoff) == 1


async def test_another_generation_begins_again() -> None:
    """A new template may repair the failure."""
    backoff = FailedPodBackoff(LoopClock(EPOCH))
    backoff.replaced("a/b", 0, "n1", "p")
    assert backoff.delays("a/b", 1, NODES) == NO_DELAYS
    backoff.replaced("a/b", 0, "n1", "p")
    backoff.replaced("a/b", 1, "n1", "p")
    assert delay(backoff) == 1


async def test_a_failed_pod_that_others_delete_is_replaced_after_the_delay() -> None:
    """Its creation is the replacement; several events tell of one deletion."""
    backoff = FailedPodBackoff(LoopClock(EPOCH))
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
    backoff = FailedPodBackoff(LoopClock(EPOCH))
    for node in ("n1", "n3"):
        backoff.replaced("a/b", 1, node, "p")
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
