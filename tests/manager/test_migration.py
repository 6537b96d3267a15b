"""Leases beside that of the manager: a migration, an election by the API server."""

import asyncio
import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.api.coordination.v1 import LEASES, Lease, LeaseSpec
from controller_manager.api.core.v1 import EVENTS
from controller_manager.api.meta import ObjectMeta
from controller_manager.client.leadership.leader_election import (
    LeadershipLost,
    LeadershipYielded,
)
from controller_manager.client.rest.transport import Request
from controller_manager.manager.selection import (
    left_out_controllers,
    migrated_controllers,
)
from controller_manager.observability.logs import make_logger
from controller_manager.options.config import Config, LeaderElectionConfig
from controller_manager.options.leader_migration import LeaderMigrationConfig
from controller_manager.registry import registry
from controller_manager.serving.health import probe
from tests.client.leadership import elections
from tests.client.leadership.elections import NAME
from tests.clusters import Cluster, make_config, manager_of
from tests.controllers.builders import deployment_json
from tests.controllers.user import User, settle
from tests.manager.daemons import ELECTING, Daemon, now

pytestmark = pytest.mark.looptime


LEASE = "migration"


def migrating(**components: str) -> Config:
    migration = LeaderMigrationConfig(LEASE, components)
    return replace(
        ELECTING, generic=replace(ELECTING.generic, leader_migration=migration)
    )


async def lease_of(cluster: Cluster, name: str) -> str | None:
    page = await cluster.client.list_page(LEASES, "kube-system")
    holders = {
        each.metadata.name: each.spec.holder_identity or "" for each in page.items
    }
    return holders.get(name)


async def hold(cluster: Cluster, holder: str) -> None:
    await cluster.client.create(
        LEASES,
        Lease(
            metadata=ObjectMeta(name=LEASE, namespace="kube-system"),
            spec=LeaseSpec(holder_identity=holder, lease_duration_seconds=30),
        ),
    )


async def test_a_controller_given_away_does_not_run(cluster: Cluster) -> None:
    log = io.StringIO()
    async with cluster.manager(
        migrating(replicaset="cloud-controller-manager"), logger=make_logger(stream=log)
    ):
        user = User(cluster)
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle(60)
        sets = await cluster.client.list_page(REPLICASETS)
        assert [each.spec.replicas for each in sets.items] == [2]
        assert await user.pods() == []
        assert await lease_of(cluster, LEASE) is None
    lines = [line for line in log.getvalue().splitlines() if "migration" in line]
    assert len(lines) == 1
    assert lines[0].endswith(
        '"Controller runs in another manager, by leader migration" '
        'controller="replicaset-controller" runsIn="cloud-controller-manager"'
    )


async def test_a_controller_given_to_this_manager_starts_with_the_second_lease(
    cluster: Cluster,
) -> None:
    """Another manager holds it at first; the other controllers do not wait for it."""
    await hold(cluster, "cloud_1")
    daemon = Daemon(cluster, "a", migrating(replicaset="kube-controller-manager"))
    user = User(cluster)
    await daemon.manager.started.wait()
    await user.create(DEPLOYMENTS, deployment_json(replicas=2))
    await settle(20)
    sets = await cluster.client.list_page(REPLICASETS)
    assert [each.spec.replicas for each in sets.items] == [2]
    assert await user.pods() == []
    await settle(20)
    assert len(await user.pods()) == 2
    assert daemon.manager.elector is not None
    identity = daemon.manager.elector.identity
    assert await lease_of(cluster, LEASE) == identity
    assert await lease_of(cluster, "kube-controller-manager") == identity
    checks = dict(daemon.manager.healthz())
    assert {"leaderElection", "leaderMigration-leaderElection"} <= checks.keys()
    await daemon.stopped()
    assert await lease_of(cluster, LEASE) == ""
    assert await lease_of(cluster, "kube-controller-manager") == ""


async def test_a_standby_leaves_the_second_lease_alone(cluster: Cluster) -> None:
    await hold(cluster, "")
    config = migrating(replicaset="*")
    first = Daemon(cluster, "first", config)
    await first.manager.started.wait()
    await settle()
    second = Daemon(cluster, "second", config)
    await second.manager.synced.wait()
    assert first.manager.elector is not None
    assert second.manager.elector is not None
    assert await lease_of(cluster, LEASE) == first.manager.elector.identity
    await first.stopped()
    await second.manager.started.wait()
    await settle(5)
    assert await lease_of(cluster, LEASE) == second.manager.elector.identity
    await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=2))
    await settle()
    assert len(await User(cluster).pods()) == 2
    await second.stopped()


async def test_a_lost_second_lease_ends_the_manager(cluster: Cluster) -> None:
    daemon = Daemon(cluster, "a", migrating(replicaset="kube-controller-manager"))
    await daemon.manager.started.wait()
    await settle(5)
    stolen = {"spec": {"holderIdentity": "thief"}}
    await cluster.client.patch(LEASES, "kube-system", LEASE, stolen)
    with pytest.RaisesGroup(LeadershipLost, flatten_subgroups=True):
        await daemon.running
    assert await lease_of(cluster, LEASE) == "thief"
    assert await lease_of(cluster, "kube-controller-manager") == ""


async def test_a_stop_waits_for_no_second_lease(cluster: Cluster) -> None:
    await hold(cluster, "cloud_1")
    daemon = Daemon(cluster, "a", migrating(replicaset="kube-controller-manager"))
    await daemon.manager.started.wait()
    await settle(5)
    await daemon.stopped()
    assert await lease_of(cluster, LEASE) == "cloud_1"
    assert await lease_of(cluster, "kube-controller-manager") == ""


async def test_controllers_that_run_elsewhere_do_not_run(cluster: Cluster) -> None:
    """It leads and answers, as with an empty selection of controllers."""
    given = dict.fromkeys(("replicaset", "deployment"), "other-manager")
    daemon = Daemon(cluster, "a", migrating(**given))
    await daemon.manager.started.wait()
    await settle(5)
    holder = await lease_of(cluster, "kube-controller-manager")
    runs = set(daemon.manager.controllers.names)
    await daemon.stopped()
    assert (holder != "", runs) == (True, set())


async def test_the_controller_of_tokens_takes_no_part() -> None:
    """The other controllers need its tokens."""
    config = migrating(**{"serviceaccount-token": "*", "replicaset": "*"})
    everything = replace(config.generic, controllers=("*",))
    assert migrated_controllers(registry(), everything) == {"replicaset-controller"}


async def test_a_controller_that_another_manager_runs_is_not_absent() -> None:
    config = migrating(job="cloud-controller-manager")
    everything = replace(config, generic=replace(config.generic, controllers=("*",)))
    absent = [each.name for each in left_out_controllers(registry(), everything, "PEM")]
    assert "job-controller" not in absent
    config = replace(config, generic=replace(config.generic, controllers=("ttl",)))
    absent = [each.name for each in left_out_controllers(registry(), config, "PEM")]
    assert "job-controller" not in absent


CONFIG = replace(
    make_config(leader_election=LeaderElectionConfig()), features=elections.COORDINATED
)


@pytest_asyncio.fixture
async def cluster() -> Cluster:
    return Cluster(features=elections.COORDINATED)


@asynccontextmanager
async def started(cluster: Cluster, name: str) -> AsyncGenerator[Daemon, None]:
    daemon = Daemon(cluster, name, CONFIG)
    try:
        await daemon.manager.synced.wait()
        await settle(0.1)
        yield daemon
    finally:
        if not daemon.running.done():
            await daemon.stopped()


def identity_of(daemon: Daemon) -> str:
    elector = daemon.manager.elector
    assert elector is not None
    return elector.identity


async def test_an_elected_manager_gives_way(cluster: Cluster) -> None:
    user = User(cluster)
    async with started(cluster, "a") as first, started(cluster, "b") as second:
        names = [each.metadata.name for each in await elections.candidates(cluster)]
        assert sorted(names) == sorted(map(identity_of, (first, second)))
        await settle(60)
        assert (
            await elections.lease_of(cluster) is None
        )  # no API server has elected anybody
        await elections.elect(cluster, identity_of(first))
        await first.manager.started.wait()
        await user.create(DEPLOYMENTS, deployment_json(replicas=3))
        await settle()
        assert len(await user.pods()) == 3
        await elections.prefer(cluster, identity_of(second))
        with pytest.RaisesGroup(LeadershipYielded, flatten_subgroups=True):
            await first.running
        released = await elections.lease_of(cluster)
        assert released is not None
        assert not released.holder_identity
        assert not second.manager.started.is_set()
        await settle(0.1)
        yielded_at = now()
        await elections.elect(cluster, identity_of(second))
        await second.manager.started.wait()
        assert now() - yielded_at < 0.1
        await settle()
        assert len(await user.pods()) == 3
        assert second.way.writes[0][0] >= yielded_at
    page = await cluster.client.list_page(EVENTS, elections.NAMESPACE)
    assert [event.message for event in page.items] == [
        f"{identity_of(first)} became leader",
        f"{identity_of(first)} stopped leading",
        f"{identity_of(second)} became leader",
        f"{identity_of(second)} stopped leading",
    ]


async def test_a_manager_that_stops_is_no_candidate(cluster: Cluster) -> None:
    """Else the API server elects it again, and no manager leads until that expires.

    The release wakes the API server, which pings the candidates at once.
    """
    handle = cluster.server.handle
    pinged_at: list[str] = []

    async def pinging(request: Request) -> Any:
        answer = await handle(request)
        if request.method == "PUT" and request.path.endswith(f"/leases/{NAME}"):
            released = await elections.lease_of(cluster)
            if released is not None and not released.holder_identity:
                pinged_at.append(elections.now_of(cluster))
                await elections.ping(cluster, identity_of(daemon))
        if request.path.endswith("/events"):
            await asyncio.sleep(0.5)
        return answer

    async with started(cluster, "a") as daemon:
        await elections.elect(cluster, identity_of(daemon))
        await daemon.manager.started.wait()
        await settle(2)
        cluster.server.handle = pinging  # type: ignore[method-assign]
        await daemon.stopped()
    cluster.server.handle = handle  # type: ignore[method-assign]
    (candidate,) = await elections.candidates(cluster)
    assert [candidate.spec.ping_time] == pinged_at
    assert (candidate.spec.renew_time or "") < pinged_at[0]


async def test_a_manager_that_is_not_synced_is_no_candidate(cluster: Cluster) -> None:
    """The API server could elect it again and again, and nothing would work."""
    daemon = Daemon(cluster, "a", CONFIG)
    daemon.way.hangs = True
    await settle(60)
    assert await elections.candidates(cluster) == []
    ready = probe("readyz", daemon.manager.readyz(), verbose=True)
    assert "[-]leaseCandidate failed: no lease candidate: it is not made" in ready.text
    daemon.way.hangs = False
    await settle(120)
    assert len(await elections.candidates(cluster)) == 1
    assert probe("readyz", daemon.manager.readyz(), verbose=False).healthy
    await daemon.stopped()


async def test_a_manager_says_that_nothing_elects_it() -> None:
    """The API server's gate is off: the manager waits, healthy, as upstream's."""
    cluster, log = Cluster(), io.StringIO()
    manager = manager_of(cluster, CONFIG, logger=make_logger(stream=log))
    running = asyncio.create_task(manager.run(asyncio.Event()))
    await settle(600)
    assert not manager.started.is_set()
    assert await elections.lease_of(cluster) is None
    lines = [each for each in log.getvalue().splitlines() if "runtime-config" in each]
    assert len(lines) == 1
    assert probe("healthz", manager.healthz(), verbose=False).healthy
    assert not probe("readyz", manager.readyz(), verbose=False).healthy
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
