"""Daemon sets on a cluster in memory, beyond the recorded scenarios."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

import pytest

from controller_manager.api.apps.v1 import DAEMON_SETS
from controller_manager.api.core.v1 import PODS
from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.controllers.apps.daemonset.controller import DaemonSetReconciler
from controller_manager.controllers.apps.daemonset.nodes import NodeHandlers, target_of
from controller_manager.manager.manager import ControllerManager
from controller_manager.runtime.controller import WorkerGroup
from controller_manager.runtime.outcome import DONE, SyncError
from tests.clusters import Cluster, make_config, run_manager
from tests.controllers.apps.daemonset.builders import (
    Operator,
    config,
    counted_syncs,
    daemon_set,
    running,
)
from tests.controllers.builders import daemon_set_json, template
from tests.controllers.hands import Hands
from tests.controllers.scenarios import Scenario, scenarios
from tests.controllers.user import settle
from tests.world.memory import remembered

pytestmark = pytest.mark.looptime


class Playing(Operator):
    """Plays scenarios with one daemon set."""

    async def make(self, pool: str = "", **spec: Any) -> None:
        """Create the daemon set, on the nodes of a pool."""
        if pool:
            spec["template"] = template(app="agent")
            spec["template"]["spec"]["nodeSelector"] = {"pool": pool}
        await self.create(DAEMON_SETS, daemon_set_json(**spec))
        await settle(1)

    async def places(self) -> list[str]:
        return sorted(await self.placed())

    async def pod_on(self, node: str) -> str:
        (name,) = (await self.placed())[node]
        return name

    async def bind_on(self, node: str) -> None:
        await self.bind(await self.client.get(PODS, "default", await self.pod_on(node)))

    async def end_on(self, node: str, phase: str) -> None:
        await self.report(await self.pod_on(node), phase=phase)

    async def leaving(self) -> list[str]:
        """Return the nodes whose pods are being deleted."""
        pods = [each for each in await self.pods() if each.metadata.deletion_timestamp]
        return sorted(map(target_of, pods))

    async def messages(self, reason: str) -> list[str]:
        return [each.message for each in await self.events(reason)]

    async def has_event(self, reason: str) -> bool:
        return bool(await self.events(reason))


@scenarios("apps/daemonset")
async def test_daemon_sets_follow_their_nodes(scenario: Scenario) -> None:
    await scenario.play(Hands, config, Playing)


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


async def test_a_changed_node_affects_only_some_daemon_sets(cluster: Cluster) -> None:
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


async def test_changes_that_undo_each_other_cause_no_sync(cluster: Cluster) -> None:
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
