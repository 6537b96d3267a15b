"""Daemon sets on a cluster in memory, beyond the recorded scenarios."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.client.builder import Connections
from controller_manager.client.rest.transport import Request
from controller_manager.controllers.apps.daemonset.controller import (
    DaemonSetReconciler,
)
from controller_manager.manager.manager import ControllerManager
from controller_manager.runtime.controller import WorkerGroup
from controller_manager.runtime.outcome import DONE, SyncError
from tests.clusters import Cluster, RecordingTransport, make_config, run_manager
from tests.controllers.apps.daemonset.cases import daemon_set
from tests.controllers.apps.daemonset.fixtures import Operator, running
from tests.controllers.apps.replicaset.test_surplus import Lossy, creates_pod
from tests.controllers.builders import template
from tests.controllers.user import settle
from tests.world.memory import remembered

pytestmark = pytest.mark.looptime


def pods_written(recording: RecordingTransport) -> list[str]:
    """Return the verbs of the writes to pods, in order."""
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


async def test_a_taint_under_a_running_pod_changes_the_status_at_once(
    cluster: Cluster,
) -> None:
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


async def test_a_node_that_is_deleted_changes_the_status_at_once(
    cluster: Cluster,
) -> None:
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


async def test_a_node_that_comes_back_without_fitting_loses_its_pod(
    cluster: Cluster,
) -> None:
    """The pod still names the node, but this is another node now."""
    async with running(cluster, "n1", "n2") as (operator, _):
        await operator.run_all()
        await operator.client.delete(NODES, "", "n1")
        await settle(1)
        cluster.add(
            "Node", "n1", spec={"taints": [{"key": "x", "effect": "NoExecute"}]}
        )
        await settle(1)
        (pod,) = (await operator.placed())["n1"]
        gone = await operator.client.get(PODS, "default", pod)
        assert gone.metadata.deletion_timestamp is not None
        assert await operator.numbers() == (1, 1, 1, 1, 1)


@pytest.mark.parametrize("how", ["before", "after", "500"])
async def test_a_create_whose_response_is_lost_makes_no_surplus_pod(
    cluster: Cluster, how: str
) -> None:
    """Each node gets one pod, even if the API server carried out the create."""
    lossy, most = Lossy(cluster.transport), 0
    lost: list[str] = []

    def lose(request: Request) -> str:
        if creates_pod(request) and len(lost) < 4:
            lost.append(request.path)
            return how
        return ""

    lossy.lose = lose
    async with running(cluster, "n1", "n2", "n3", transport=lossy) as (operator, _):
        for _ in range(300):
            await asyncio.sleep(0.1)
            most = max(most, len(await operator.pods()))
        placed = await operator.placed()
    assert len(lost) >= 3
    assert ({node: len(pods) for node, pods in placed.items()}, most) == (
        {"n1": 1, "n2": 1, "n3": 1},
        3,
    )


@pytest.mark.slow
async def test_hundreds_of_nodes_get_their_pods_in_bursts(cluster: Cluster) -> None:
    """At most 250 at a time, by slow start: one create is tried first."""
    nodes = [f"n{number:03}" for number in range(300)]
    async with running(cluster, *nodes) as (operator, recording):
        await settle(5)
        assert await operator.numbers() == (300, 300, 300, 0, 0)
        kinds = [each.path.rpartition("/")[2] for each in recording.writes]
    assert kinds == [
        "controllerrevisions",
        *["pods"] * 250,
        "status",
        *["pods"] * 50,
        "status",
    ]


async def test_a_failed_pod_is_replaced_when_its_delay_ends(cluster: Cluster) -> None:
    """The first one at once; the end of the delay replaces the next, without event."""
    async with running(cluster, "n1") as (operator, _):
        seconds = [await replacement_of_a_failed_pod(operator) for _ in range(6)]
        assert [round(each) for each in seconds] == [0, 1, 2, 4, 8, 16]
        assert len(await operator.events("FailedDaemonPod")) == 6


async def test_only_a_pod_that_is_deleted_because_it_failed_gets_an_event(
    cluster: Cluster,
) -> None:
    """Not a pod that is deleted because its node does not fit any more."""
    async with running(cluster, "n1", "n2") as (operator, _):
        await operator.run_all()
        (doomed,) = (await operator.placed())["n1"]
        await operator.taint("n1", "reserved", effect="NoExecute")
        status = {"status": {"phase": "Failed"}}
        await operator.client.patch(
            PODS, "default", doomed, status, subresource="status"
        )
        await settle(5)
        assert await operator.events("FailedDaemonPod") == []
        (other,) = (await operator.placed())["n2"]
        status = {"status": {"phase": "Succeeded"}}
        await operator.client.patch(
            PODS, "default", other, status, subresource="status"
        )
        await settle(5)
        (event,) = await operator.events("SucceededDaemonPod")
        assert event.message == (
            f"Found succeeded daemon pod default/{other} on node n2, will try to "
            "delete it"
        )


async def replacement_of_a_failed_pod(operator: Operator) -> float:
    """Let the only pod fail; return the seconds until another pod replaces it."""
    loop = asyncio.get_running_loop()
    (pod,) = await operator.pods()
    name, failed = pod.metadata.name, loop.time()
    status = {"status": {"phase": "Failed"}}
    await operator.client.patch(PODS, "default", name, status, subresource="status")
    for _ in range(3000):
        await asyncio.sleep(0.01)
        names = [each.metadata.name for each in await operator.pods()]
        if names not in ([], [name]):
            break
    return loop.time() - failed


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


async def test_a_daemon_set_that_selects_all_pods_only_gets_a_warning(
    cluster: Cluster,
) -> None:
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


async def test_no_state_is_kept_of_a_daemon_set_that_is_deleted_during_a_sync(
    cluster: Cluster,
) -> None:
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
