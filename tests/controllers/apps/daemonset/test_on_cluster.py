"""Daemon sets on a cluster in memory, beyond the recorded scenarios."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from unittest import mock

import pytest

from controller_manager.api.apps.v1 import DAEMON_SETS
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import (
    DeleteOptions,
)
from controller_manager.controllers.apps.daemonset.controller import (
    DaemonSetReconciler,
)
from controller_manager.controllers.apps.daemonset.nodes import NodeHandlers
from controller_manager.manager.manager import ControllerManager
from controller_manager.runtime.controller import WorkerGroup
from controller_manager.runtime.outcome import DONE, SyncError
from tests.clusters import Cluster, RecordingTransport, make_config, run_manager
from tests.controllers.apps.daemonset.builders import (
    Operator,
    config,
    counted_syncs,
    daemon_set,
    running,
)
from tests.controllers.builders import daemon_set_json, template
from tests.controllers.user import settle
from tests.world.memory import remembered

pytestmark = pytest.mark.looptime


def pods_written(recording: RecordingTransport) -> list[str]:
    return [each.method for each in recording.writes if "/pods" in each.path]


async def test_a_pod_that_is_not_bound_leaves_a_node_that_stops_to_fit(
    cluster: Cluster,
) -> None:
    """Upstream does not delete it before something else causes a sync."""
    spec = template(app="agent")
    spec["spec"]["nodeSelector"] = {"pool": "a"}
    async with running(cluster, "n1", "n2", template=spec) as (operator, _):
        await operator.label("n1", pool="a")
        await operator.label("n2", pool="a")
        await settle(1)
        assert (await operator.placed()).keys() == {"n1", "n2"}
        await operator.label("n2", pool="b")
        await settle(1)
        assert (await operator.placed()).keys() == {"n1"}
        assert await operator.numbers() == (1, 1, 1, 0, 0)


async def test_a_taint_under_a_pod_changes_the_status(cluster: Cluster) -> None:
    """Upstream's status does not change before something else causes a sync."""
    async with running(cluster, "n1", "n2") as (operator, recording):
        await operator.run_all()
        assert await operator.numbers() == (2, 2, 2, 2, 0)
        await operator.taint("n1", "reserved")
        await settle(1)
        assert await operator.numbers() == (1, 1, 1, 1, 1)
        await operator.taint("n1")
        await settle(1)
        assert await operator.numbers() == (2, 2, 2, 2, 0)
    assert pods_written(recording) == ["POST", "POST"]


async def test_a_deleted_node_changes_the_status_at_once(cluster: Cluster) -> None:
    """The pod garbage collector deletes bound pods, the controller unbound pods."""
    async with running(cluster, "n1", "n2", "n3") as (operator, _):
        (first,) = (await operator.placed())["n1"]
        await operator.bind(await operator.client.get(PODS, "default", first))
        await settle(1)
        for name in ("n1", "n2"):
            await operator.client.delete(NODES, "", name)
        await settle(1)
        assert (await operator.placed()).keys() == {"n1", "n3"}
        assert await operator.numbers() == (1, 1, 1, 0, 0)


async def test_a_node_that_comes_back_unfit_loses_its_pod(cluster: Cluster) -> None:
    """The pod still names the node, but this is another node now."""
    async with running(cluster, "n1", "n2") as (operator, _):
        await operator.run_all()
        await operator.client.delete(NODES, "", "n1")
        await settle(1)
        await operator.add_node("n1", taint="x:NoExecute")
        await settle(1)
        (pod,) = (await operator.placed())["n1"]
        gone = await operator.client.get(PODS, "default", pod)
        assert gone.metadata.deletion_timestamp is not None
        assert await operator.numbers() == (1, 1, 1, 1, 1)


async def test_only_the_deletion_of_a_failed_pod_is_an_event(cluster: Cluster) -> None:
    """Not a pod that is deleted because its node does not fit any more."""
    async with running(cluster, "n1", "n2") as (operator, _):
        await operator.run_all()
        (doomed,) = (await operator.placed())["n1"]
        await operator.taint("n1", "reserved", effect="NoExecute")
        await operator.report(doomed, phase="Failed")
        await settle(5)
        assert await operator.events("FailedDaemonPod") == []
        (other,) = (await operator.placed())["n2"]
        await operator.report(other, phase="Succeeded")
        await settle(5)
        (event,) = await operator.events("SucceededDaemonPod")
        assert event.message == (
            f"Found succeeded daemon pod default/{other} on node n2, will try to "
            "delete it"
        )


@asynccontextmanager
async def daemon_controller(
    cluster: Cluster,
) -> AsyncGenerator[tuple[DaemonSetReconciler, ControllerManager], None]:
    """Run the controller of daemon sets alone; yield it and its manager."""
    connections = Connections(cluster.transport)
    alone = make_config(controllers=("daemonset-controller",))
    run = run_manager(connections, cluster.clock, cluster.rng, alone)
    async with run as manager:
        group = manager.controllers["daemonset-controller"].controller
        assert isinstance(group, WorkerGroup)
        found = group._pools[0].reconcile.__self__  # type: ignore[attr-defined]
        assert isinstance(found, DaemonSetReconciler)
        yield found, manager


async def test_a_daemon_set_that_selects_all_is_only_warned(cluster: Cluster) -> None:
    """API servers refuse it now, but did not always."""
    operator = Operator(cluster)
    await operator.add_node("n1")
    odd = {"matchExpressions": [{"key": "a", "operator": "Like"}]}
    async with daemon_controller(cluster) as (controller, _):
        assert await controller.reconcile(daemon_set(selector={})) == DONE
        with pytest.raises(SyncError, match="'Like' is not a valid label selector"):
            await controller.reconcile(daemon_set(selector=odd))
        await settle(1)
    (event,) = await operator.events("SelectingAll")
    assert (event.type, event.message) == (
        "Warning",
        "This daemon set is selecting all pods. A non-empty selector is required.",
    )
    assert await operator.pods() == []


async def finish_deletions(operator: Operator) -> None:
    """Delete the pods that are being deleted, as their kubelets do at the end."""
    options = DeleteOptions(grace_period_seconds=0)
    for pod in await operator.pods():
        if pod.metadata.deletion_timestamp:
            await operator.client.delete(PODS, "default", pod.metadata.name, options)
    await settle(1)


@pytest.mark.parametrize("strategy", ["OnDelete", "RollingUpdate"])
async def test_the_status_is_written_though_pods_cannot_be_created(
    cluster: Cluster, strategy: str
) -> None:
    """TestUpdateStatusDespitePodCreationFailure: a quota lets two pods through."""
    hard = {"pods": "2"}
    counted = {"hard": hard, "used": {"pods": "0"}}
    cluster.add("ResourceQuota", "q", spec={"hard": hard}, status=counted)
    names = [f"n{number}" for number in range(5)]
    async with running(cluster, *names, updateStrategy={"type": strategy}) as (
        operator,
        _,
    ):
        await operator.run_all()
        assert len(await operator.pods()) == 2
        assert await operator.numbers() == (5, 2, 2, 2, 0)
        assert await operator.events("FailedCreate")


async def test_pods_of_a_former_daemon_set_are_updated(cluster: Cluster) -> None:
    """Upstream leaves them as they are: the number of templates is the same."""
    async with running(cluster, "n1", "n2") as (operator, _):
        await set_image(operator, "app:v2")
        await operator.run_all()
        await operator.delete(DAEMON_SETS, "agent", "Orphan")
        await settle(5)
        former = {pod.metadata.uid for pod in await operator.pods()}
        made = template(app="agent", image="app:v2")
        await operator.create(DAEMON_SETS, daemon_set_json(template=made))
        await settle(5)
        assert {pod.metadata.uid for pod in await operator.pods()} == former
        assert await operator.numbers() == (2, 2, 2, 2, 0)
        await set_image(operator, "app:v3")
        await settle(1)
        assert await operator.numbers() == (2, 2, 0, 2, 0)
        for _ in range(4):
            await finish_deletions(operator)
            await operator.run_all()
        assert former.isdisjoint(pod.metadata.uid for pod in await operator.pods())
        assert await operator.numbers() == (2, 2, 2, 2, 0)


async def set_image(operator: Operator, image: str) -> None:
    spec = {"template": template(app="agent", image=image)}
    await operator.patch(DAEMON_SETS, "agent", {"spec": spec})


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


async def test_no_state_is_kept_of_a_set_deleted_in_a_sync(cluster: Cluster) -> None:
    """The next sync drops state that a sync kept after the deletion."""
    async with daemon_controller(cluster) as (controller, manager):
        key = "default/gone"
        controller._takeover.rechecked(key)
        controller._expectations.outcome_unknown(key)
        controller._backoff.replaced(key, 1, "n1", "p")
        controller._templates.of(daemon_set("gone"))
        assert remembered(manager) != {}
        controller.queue.add(key)
        await settle(1)
        assert remembered(manager) == {}
