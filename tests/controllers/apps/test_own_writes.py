"""Controllers of pods see their own writes late, or never learn whether they came."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from controller_manager.api.apps.v1 import DAEMON_SETS, REPLICASETS, STATEFUL_SETS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Resource
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response, Transport
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, RecordingTransport, make_config
from tests.controllers.apps.daemonset.builders import Operator
from tests.controllers.apps.replicaset.test_on_cluster import creations, hold
from tests.controllers.apps.statefulset.builders import stateful_set_json
from tests.controllers.builders import daemon_set_json, replica_set_json
from tests.controllers.responses import is_creation, refusal
from tests.controllers.user import settle
from tests.informers.test_informer import Faulty

pytestmark = pytest.mark.looptime


@dataclass(frozen=True)
class Kind:
    """A controller, and an object `web` of it that wants three pods."""

    controller: str
    gate: str
    resource: Resource[Any]
    body: JSON


SETS: Final = Kind(
    "statefulset-controller",
    "StaleControllerConsistencyStatefulSet",
    STATEFUL_SETS,
    stateful_set_json(podManagementPolicy="Parallel"),
)
REPLICAS: Final = Kind(
    "replicaset-controller",
    "StaleControllerConsistencyReplicaSet",
    REPLICASETS,
    replica_set_json("web"),
)
DAEMONS: Final = Kind(
    "daemonset-controller",
    "StaleControllerConsistencyDaemonSet",
    DAEMON_SETS,
    daemon_set_json("web"),
)
by_kind: Final = pytest.mark.parametrize(
    "kind", [REPLICAS, SETS, DAEMONS], ids=lambda each: each.controller
)
without_names: Final = pytest.mark.parametrize(
    "kind", [REPLICAS, DAEMONS], ids=lambda each: each.controller
)
"""Pods of a stateful set have names, so a surplus one is refused."""


@asynccontextmanager
async def running(
    cluster: Cluster, kind: Kind, *, gate: bool, transport: Transport | None = None
) -> AsyncGenerator[tuple[Operator, RecordingTransport], None]:
    operator = Operator(cluster)
    for name in ("n1", "n2", "n3"):
        await operator.add_node(name)
    config = make_config(controllers=(kind.controller,))
    config = replace(config, features=FeatureGates({kind.gate: gate}))
    async with cluster.manager(config, transport) as recording:
        yield operator, recording


async def ready(operator: Operator, kind: Kind) -> int:
    status = (await operator.client.get(kind.resource, "default", "web")).status
    return int(status.number_ready if kind is DAEMONS else status.ready_replicas)


@by_kind
@pytest.mark.parametrize(("gate", "answers"), [(True, [200]), (False, [200, 409])])
async def test_a_controller_waits_for_its_own_writes_if_the_gate_says_so(
    cluster: Cluster, kind: Kind, gate: bool, answers: list[int]
) -> None:
    """Without it, a sync on the stale cache writes a status that is refused."""
    free = hold(cluster, kind.resource.plural)
    async with running(cluster, kind, gate=gate) as (operator, recording):
        await operator.create(kind.resource, kind.body)
        await settle()
        recording.writes.clear()
        free.clear()
        for pod in (await operator.pods())[:2]:
            await operator.make_ready(pod.metadata.name)
            await settle(2)
        assert {each.path.rpartition("/")[2] for each in recording.writes} == {"status"}
        assert [each.status for each in recording.writes] == answers
        free.set()
        await settle()
        assert await ready(operator, kind) == 2


@without_names
@pytest.mark.parametrize("gate", [True, False])
async def test_a_lagging_watch_of_pods_makes_no_surplus_in_either_position(
    cluster: Cluster, kind: Kind, gate: bool
) -> None:
    """Expectations work without the versions of written objects.

    Not even after they have timed out (kubernetes#129795).
    """
    free = hold(cluster, "pods")
    async with running(cluster, kind, gate=gate) as (operator, recording):
        free.clear()
        await operator.create(kind.resource, kind.body)
        for number in range(30):
            await settle(30)
            poke = {"metadata": {"annotations": {"poke": str(number)}}}
            await operator.patch(kind.resource, "web", poke)
        assert creations(recording.writes) == 3
        free.set()
        await settle(900)
        assert creations(recording.writes) == 3
        for pod in await operator.pods():
            await operator.make_ready(pod.metadata.name)
        await settle()
        assert await ready(operator, kind) == 3


class Lossy(Faulty):
    """Loses the first four creations of pods, before or after they were carried out."""

    def __init__(self, cluster: Cluster, how: str) -> None:
        super().__init__(cluster)
        self.how = how
        self.lost = 0

    async def request(self, request: Request) -> Response:
        if not is_creation(request) or self.lost == 4:
            return await super().request(request)
        self.lost += 1
        if self.how != "before":
            await super().request(request)
        if self.how == "500":
            return refusal(500, "", "etcd timed out")
        raise TransportError(self.how)


@by_kind
@pytest.mark.parametrize("how", ["before", "after", "500"])
async def test_lost_answers_add_no_pod(cluster: Cluster, kind: Kind, how: str) -> None:
    lossy, most = Lossy(cluster, how), 0
    async with running(cluster, kind, gate=True, transport=lossy) as (operator, _):
        await operator.create(kind.resource, kind.body)
        for _ in range(300):
            await asyncio.sleep(0.1)
            most = max(most, len(await operator.pods()))
        left = len(await operator.pods())
    assert lossy.lost >= 3
    assert (left, most) == (3, 3)
