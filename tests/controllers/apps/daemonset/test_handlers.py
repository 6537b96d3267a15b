"""Changes of nodes cause syncs of the daemon sets that they affect."""

from unittest import mock

import pytest

from controller_manager.api.apps.v1 import DAEMON_SETS
from controller_manager.controllers.apps.daemonset.controller import (
    DaemonSetReconciler,
)
from controller_manager.controllers.apps.daemonset.nodes import NodeHandlers
from tests.clusters import Cluster
from tests.controllers.apps.daemonset.fixtures import (
    Operator,
    config,
    counted_syncs,
    running,
)
from tests.controllers.builders import daemon_set_json, template
from tests.controllers.user import settle

pytestmark = pytest.mark.looptime


async def test_heartbeats_cause_no_sync(cluster: Cluster) -> None:
    """They change neither labels nor taints."""
    async with running(cluster, "n1", "n2") as (operator, recording):
        await operator.run_all()
        recording.writes.clear()
        with counted_syncs() as names:
            for number in range(50):
                for node in ("n1", "n2"):
                    await operator.beat(node, f"2026-01-01T00:00:{number:02}Z")
                await settle(10)
    assert (names, recording.writes) == ([], [])


async def test_a_changed_node_affects_only_some_daemon_sets(
    cluster: Cluster,
) -> None:
    """Those for which its fit changes."""
    selecting = template(app="logs")
    selecting["spec"]["nodeSelector"] = {"pool": "a"}
    tolerant = template(app="tolerant")
    tolerant["spec"]["tolerations"] = [{"operator": "Exists"}]
    async with running(cluster, "n1", "n2") as (operator, _):
        for name, each in (("logs", selecting), ("tolerant", tolerant)):
            await operator.create(DAEMON_SETS, daemon_set_json(name, template=each))
        await operator.run_all()
        with counted_syncs() as names:
            await operator.label("n1", zone="east")
            await settle(1)
            assert names == []
            await operator.taint("n1", "reserved")
            await settle(1)
            assert set(names) == {"agent"}
            names.clear()
            await operator.label("n2", pool="a")
            await settle(1)
            assert set(names) == {"logs"}
            await settle(5)
            names.clear()
            await operator.add_node("n3")
            await settle(1)
            assert set(names) == {"agent", "tolerant"}


async def test_changes_that_undo_each_other_cause_no_sync(
    cluster: Cluster,
) -> None:
    """If both come before the first one is processed."""
    async with running(cluster, "n1") as (operator, _):
        await operator.run_all()
        with counted_syncs() as names:
            kind = cluster.server.catalogue.find("", "v1", "nodes")
            assert kind is not None
            for taints in ([{"key": "x", "effect": "NoSchedule"}], []):
                node = cluster.server.objects.find(kind, "", "n1").obj
                spec = {**node["spec"], "taints": taints}
                cluster.server.objects.update(kind, "", "n1", {**node, "spec": spec})
            await settle(1)
    assert names == []


async def test_a_standby_keeps_no_changed_nodes(cluster: Cluster) -> None:
    """When it begins to lead, it syncs all daemon sets anyway."""
    operator = Operator(cluster)
    with mock.patch.object(DaemonSetReconciler, "starting"):
        async with cluster.manager(config()):
            with mock.patch.object(NodeHandlers, "sync_node") as synced:
                await operator.add_node("n1")
                await settle(1)
    synced.assert_not_called()
