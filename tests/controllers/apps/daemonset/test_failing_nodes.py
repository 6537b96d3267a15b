"""Nodes on which each pod of a daemon set fails as soon as it exists."""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import pytest

from controller_manager.api.apps.v1 import DAEMON_SETS
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.client.rest.errors import NotFound
from controller_manager.controllers.apps.daemonset.nodes import target_of
from tests.clusters import Cluster
from tests.controllers.apps.daemonset.fixtures import Operator, running
from tests.controllers.builders import template
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


@pytest.mark.parametrize("strategy", ["surge", "percentage"])
@pytest.mark.parametrize("deletes", [False, True])
async def test_a_new_template_that_fails_makes_few_pods_beside_healthy_ones(
    cluster: Cluster, strategy: str, *, deletes: bool
) -> None:
    """The old pods serve on, and the update waits with the failing node."""
    spec: dict[str, Any] = {"updateStrategy": STRATEGIES[strategy]}
    async with running(cluster, "n1", "n2", **spec) as (operator, _):
        await operator.run_all()
        settings = {"bad_version": "2", "deletes": deletes}
        async with failing(operator, "n1", "n2", **settings) as kubelets:
            made = {"spec": {"template": template(app="agent", version="2")}}
            await operator.patch(DAEMON_SETS, "agent", made)
            await settle(30)
        assert kubelets.created == {"n1": DELAYED, "n2": []}
        assert await operator.numbers() == (2, 2, 0, 2, 0)


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


async def test_a_user_who_deletes_a_failed_pod_gets_another_one_at_once(
    cluster: Cluster,
) -> None:
    """The user asks for another attempt, and has looked at the pod before."""
    async with running(cluster, "n1") as (operator, _):
        async with failing(operator, "n1") as kubelets:
            await settle(27)
            (pod,) = await operator.pods()
            await operator.client.delete(PODS, "default", pod.metadata.name)
            await settle(1)
        assert kubelets.created == {"n1": [*DELAYED, 27]}


async def test_pods_that_a_user_deletes_are_replaced_without_delay(
    cluster: Cluster,
) -> None:
    """They have not failed."""
    async with running(cluster, "n1") as (operator, _):
        async with failing(operator, "n1"):
            await settle(20)
        await settle(20)
        await operator.run_all()
        for _ in range(5):
            (pod,) = await operator.pods()
            now = DeleteOptions(grace_period_seconds=0)
            await operator.client.delete(PODS, "default", pod.metadata.name, now)
            await operator.run_all()
            assert await operator.numbers() == (1, 1, 1, 1, 0)


@pytest.mark.parametrize("deletes", [False, True])
async def test_a_new_template_is_tried_at_once_on_a_node_that_fails(
    cluster: Cluster, *, deletes: bool
) -> None:
    """It may repair the failure."""
    spec: dict[str, Any] = {"updateStrategy": STRATEGIES["surge"]}
    async with running(cluster, "n1", **spec) as (operator, _):
        settings = {"bad_version": "1", "deletes": deletes}
        async with failing(operator, "n1", **settings) as kubelets:
            await settle(20)
            made = {"spec": {"template": template(app="agent", version="2")}}
            await operator.patch(DAEMON_SETS, "agent", made)
            await settle(1)
            await operator.run_all()
        assert kubelets.created == {"n1": DELAYED}
        assert await operator.numbers() == (1, 1, 1, 1, 0)
