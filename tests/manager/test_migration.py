"""Leader migration: some controllers run under a second lease, or elsewhere."""

import io
from dataclasses import replace

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.api.coordination.v1 import LEASES, Lease, LeaseSpec
from controller_manager.api.meta import ObjectMeta
from controller_manager.client.leadership.leader_election import LeadershipLost
from controller_manager.manager.selection import (
    left_out_controllers,
    migrated_controllers,
)
from controller_manager.observability.logs import make_logger
from controller_manager.options.config import Config
from controller_manager.options.leader_migration import LeaderMigrationConfig
from controller_manager.registry import registry
from tests.clusters import Cluster
from tests.controllers.builders import deployment_json
from tests.controllers.user import User, settle
from tests.manager.daemons import ELECTING, Daemon

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
