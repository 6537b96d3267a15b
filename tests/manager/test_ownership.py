"""Several managers on one cluster: one leads, another is a standby."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.core.v1 import EVENTS
from controller_manager.client.builder import Connections
from controller_manager.client.leadership.leader_election import (
    LeadershipLost,
    is_of_this_program,
)
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.serving.health import probe
from tests.clusters import (
    Cluster,
    RecordingTransport,
    make_config,
    manager_of,
    running_manager,
)
from tests.controllers.builders import deployment_json
from tests.controllers.user import User, settle
from tests.manager import daemons

pytestmark = pytest.mark.looptime


async def test_a_standby_writes_nothing_and_is_ready(cluster: Cluster) -> None:
    async with daemons.leader_and_standby(cluster) as (first, second):
        await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=3))
        await settle()
        assert len(first.way.writes) > 3
        assert second.way.writes == []
        ready = probe("readyz", second.manager.readyz(), verbose=True)
        assert ready.text == (
            "[+]apiserver ok\n[+]shutdown ok\n[+]informer-deployments.apps ok\n"
            "[+]informer-replicasets.apps ok\n[+]informer-pods ok\n"
            "readyz check passed\n"
        )


async def test_a_clean_stop_lets_the_standby_lead_at_once(cluster: Cluster) -> None:
    async with daemons.leader_and_standby(cluster) as (first, second):
        reads = len(second.way.reads)
        stopped_at = daemons.now()
        await first.stopped()
        await second.manager.started.wait()
        assert daemons.now() - stopped_at < 0.1
        await settle(10)  # later objects are surely its own
        await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=3))
        await settle(1)
        assert len(await User(cluster).pods()) == 3
        # The lease was read once; nothing was listed.
        assert second.way.reads[reads:] == ["kube-controller-manager"]


async def test_a_lagging_standby_creates_no_pod_twice(cluster: Cluster) -> None:
    """It reads the former leader's writes from the API server before it writes."""
    user = User(cluster)
    async with daemons.leader_and_standby(cluster) as (first, second):
        second.way.flows.clear()
        await user.create(DEPLOYMENTS, deployment_json(replicas=3))
        await settle(5)
        assert len(await user.pods()) == 3
        await first.stopped()
        await second.manager.started.wait()
        await settle(60)
        created = [each for _, each in second.way.writes if each.endswith("/pods")]
        assert created == []
        second.way.flows.set()
        await settle(60)
        assert len(await user.pods()) == 3
        assert not [each for _, each in second.way.writes if "/pods" in each]


async def test_a_kill_lets_the_standby_lead_after_the_lease(cluster: Cluster) -> None:
    async with daemons.leader_and_standby(cluster) as (first, second):
        await asyncio.sleep(31)
        killed_at = daemons.now()
        await first.killed()
        await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=3))
        await second.manager.started.wait()
        assert 13 <= daemons.now() - killed_at <= 15.1
        await settle(1)
        assert len(await User(cluster).pods()) == 3


async def test_a_leader_without_a_connection_ends(cluster: Cluster) -> None:
    """It ends before another can lead, with LeadershipLost (exit code 1)."""
    user = User(cluster)
    async with daemons.leader_and_standby(cluster) as (first, second):
        await asyncio.sleep(20)
        first.way.hangs = True
        cut_at = daemons.now()
        await user.create(DEPLOYMENTS, deployment_json(replicas=3))
        with pytest.RaisesGroup(LeadershipLost, flatten_subgroups=True):
            await first.running
        assert daemons.now() - cut_at <= 10
        first.way.hangs = False
        await second.manager.started.wait()
        await settle()
        assert len(await user.pods()) == 3
        assert [when for when, _ in first.way.writes if when > cut_at] == []


async def test_a_leader_survives_a_restart_of_its_server(cluster: Cluster) -> None:
    """If the restart is shorter than the renew deadline, it continues to lead."""
    handle = cluster.server.handle
    daemon = daemons.Daemon(cluster, "a")
    await daemon.manager.started.wait()
    gone_at = daemons.now()

    async def restarting(request: Request) -> Any:
        if daemons.now() < gone_at + 7:
            msg = f"{request.path}: cannot connect"
            raise TransportError(msg)
        return await handle(request)

    cluster.server.handle = restarting  # type: ignore[method-assign]
    await asyncio.sleep(60)
    await User(cluster).create(DEPLOYMENTS, deployment_json(replicas=3))
    await settle()
    assert len(await User(cluster).pods()) == 3
    await daemon.stopped()


@pytest.mark.parametrize(
    ("former", "warned"),
    [
        ("node_4f8c1c53-9d5c-4b8e-8d57-0b7a4b1e2c3d", True),
        ("node_4f8c1c53-9d5c-8b8e-8d57-0b7a4b1e2c3d", False),
        ("", False),
    ],
)
async def test_a_takeover_from_upstreams_manager_names_controllers_that_no_longer_run(
    cluster: Cluster, former: str, *, warned: bool
) -> None:
    manager, lines = await daemons.take_over_from(cluster, former, daemons.ELECTING)
    assert len(lines) == warned
    for line in lines:
        assert f'former="{former}"' in line
        assert "job-controller (--controllers leaves it out), " in line
        assert " token-cleaner-controller" not in line
        assert " deployment-controller" not in line
        # Upstream's manager does not run it either: its feature gate is disabled.
        assert " podcertificaterequest-cleaner-controller" not in line
    assert is_of_this_program(manager.elector.identity)  # type: ignore[union-attr]


async def test_a_leader_that_stops_writes_an_event(cluster: Cluster) -> None:
    """Also if another process has taken the lease: then nothing else is written."""
    async with daemons.leader_and_standby(cluster) as (first, second):
        await asyncio.sleep(20)
        await first.stopped()
        await asyncio.sleep(20)
        assert second.manager.elector is not None
        stolen = {"spec": {"holderIdentity": "thief"}}
        name, namespace = "kube-controller-manager", "kube-system"
        await cluster.client.patch(LEASES, namespace, name, stolen)
        with pytest.RaisesGroup(LeadershipLost, flatten_subgroups=True):
            await second.running
        page = await cluster.client.list_page(EVENTS, namespace)
        stopped = [
            f"{each.manager.elector.identity} stopped leading"
            for each in (first, second)
            if each.manager.elector is not None
        ]
    messages = [event.message for event in page.items]
    assert [each for each in messages if "stopped" in each] == stopped


async def test_the_lease_has_its_own_connection(cluster: Cluster) -> None:
    """Requests on the other connections must not delay a renewal."""
    ways = [RecordingTransport(cluster.transport) for _ in range(2)]
    manager = manager_of(
        cluster,
        make_config(leader_election=LeaderElectionConfig()),
        Connections(ways[0], lease=ways[1]),
    )
    async with running_manager(manager):
        await asyncio.sleep(60)
    by_way = [["/leases" in each.path for each in way.writes] for way in ways]
    assert not any(by_way[0])
    assert all(by_way[1])
    assert len(by_way[1]) > 20


async def test_a_stopped_standby_leaves_the_lease_alone(cluster: Cluster) -> None:
    """It writes nothing, and the leader continues."""
    async with daemons.leader_and_standby(cluster) as (first, second):
        stopped_at = daemons.now()
        await second.stopped()
        assert daemons.now() - stopped_at < 0.1
        assert second.way.writes == []
        assert second.manager.started.is_set() is False
        assert first.manager.elector is not None
        assert first.manager.elector.seconds_left() > 0
        lease = await cluster.client.get(
            LEASES, "kube-system", "kube-controller-manager"
        )
        assert lease.spec.holder_identity == first.manager.elector.identity
