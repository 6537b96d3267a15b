"""Replica sets on a cluster in memory, beyond the recorded scenarios."""

import pytest

from controller_manager.api.apps.v1 import (
    REPLICASETS,
)
from controller_manager.api.core.v1 import PODS
from controller_manager.client.builder import Connections
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.runtime.worker import Workers
from tests.clusters import Cluster, make_config, run_manager
from tests.controllers.builders import replica_set_json, template
from tests.controllers.user import User, settle
from tests.world.memory import remembered

pytestmark = pytest.mark.looptime


async def test_many_orphans_cost_a_replica_set_nothing(
    cluster: Cluster, user: User
) -> None:
    """Orphans are found by label; only those that match are adopted."""
    for number in range(200):
        labels = {"app": "rs" if number < 2 else f"other{number}"}
        body = {"metadata": {"name": f"p{number}", "labels": labels}}
        body["spec"] = template()["spec"]
        await user.create(PODS, body)
    async with cluster.manager() as recording:
        await user.create(REPLICASETS, replica_set_json(replicas=2))
        await settle()
    adopted = [
        each.metadata.name
        for each in await user.pods()
        if each.metadata.owner_references
    ]
    assert sorted(adopted) == ["p0", "p1"]
    assert len(recording.writes) == 3


async def test_no_state_is_kept_of_a_replica_set_that_is_deleted_during_a_sync(
    cluster: Cluster,
) -> None:
    """The next sync drops state that a sync kept after the deletion (seed 321)."""
    config = make_config(leader_election=LeaderElectionConfig())
    connections = Connections(cluster.transport)
    async with run_manager(connections, cluster.clock, cluster.rng, config) as manager:
        workers = manager.controllers["replicaset-controller"].controller
        assert isinstance(workers, Workers)
        controller = workers.reconcile.__self__  # type: ignore[attr-defined]
        controller._takeover.rechecked("default/gone")
        controller._expectations.outcome_unknown("default/gone")
        assert remembered(manager) != {}
        workers.queue.add("default/gone")
        await workers.queue.drained()
        assert remembered(manager) == {}


async def test_a_path_that_is_not_found_does_not_mean_that_an_owner_is_gone(
    cluster: Cluster, user: User
) -> None:
    """A proxy, or a starting API server, may answer so for any path."""

    class Starting:
        host = "test"
        lost = 0

        async def request(self, request: Request) -> Response:
            if request.path.endswith("/replicasets/rs/status") and self.lost < 2:
                self.lost += 1
                return Response(404, {}, b"404 page not found\n")
            return await cluster.transport.request(request)

        async def stream(self, request: Request) -> Stream:
            return await cluster.transport.stream(request)

        async def close(self) -> None:
            pass

    transport = Starting()
    async with cluster.manager(transport=transport):
        await user.create(REPLICASETS, replica_set_json("rs", replicas=2))
        await settle()
        assert transport.lost == 2
        await user.patch(REPLICASETS, "rs", {"spec": {"replicas": 4}})
        await settle()
        assert len(await user.pods()) == 4
