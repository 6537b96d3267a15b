"""Situations of upstream's integration tests (test/integration/daemonset)."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import DAEMON_SETS
from controller_manager.api.core.v1 import PODS
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from tests.clusters import Cluster
from tests.controllers.apps.daemonset.fixtures import Operator, running
from tests.controllers.builders import daemon_set_json, template
from tests.controllers.user import settle

pytestmark = pytest.mark.looptime

STRATEGIES = ("OnDelete", "RollingUpdate")


def tolerating(*zones: str) -> dict[str, Any]:
    """Return a template that tolerates the taints of these zones."""
    made = template(app="agent")
    made["spec"]["tolerations"] = [{"key": z, "operator": "Exists"} for z in zones]
    return made


async def finish_deletions(operator: Operator) -> None:
    """Delete the pods that are being deleted, as their kubelets do at the end."""
    options = DeleteOptions(grace_period_seconds=0)
    for pod in await operator.pods():
        if pod.metadata.deletion_timestamp:
            await operator.client.delete(PODS, "default", pod.metadata.name, options)
    await settle(1)


async def test_with_surge_pods_leave_nodes_when_others_serve(cluster: Cluster) -> None:
    """TestDaemonSetRollingUpdateWithTolerations: from zone y to zone z."""
    operator = Operator(cluster)
    for number, zone in enumerate(("y", "y", "z", "z", "both", "both")):
        await operator.add_node(f"n{number}")
        await operator.taint(f"n{number}", zone)
    strategy = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    async with running(
        cluster, template=tolerating("y", "both"), updateStrategy=strategy
    ) as (operator, _):
        await operator.run_all()
        assert await operator.numbers() == (4, 4, 4, 4, 0)
        spec = {"template": tolerating("z", "both")}
        await operator.patch(DAEMON_SETS, "agent", {"spec": spec})
        await settle(1)
        placed = await operator.placed()
        assert sorted(map(len, placed.values())) == [1, 1, 1, 1, 1, 2]
        for _ in range(3):
            await operator.run_all()
            await finish_deletions(operator)
        assert (await operator.placed()).keys() == {"n2", "n3", "n4", "n5"}
        assert await operator.numbers() == (4, 4, 4, 4, 0)


@pytest.mark.parametrize("strategy", STRATEGIES)
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


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("phase", "finalizers"),
    [("Succeeded", []), ("Failed", []), ("Succeeded", ["example.com/keep"])],
)
async def test_a_pod_that_has_ended_is_replaced(
    cluster: Cluster, strategy: str, phase: str, finalizers: list[str]
) -> None:
    """TestSimpleDaemonSetRestartsPodsOnTerminalPhase: a finalizer may hold it."""
    made = template(app="agent")
    made["metadata"]["finalizers"] = finalizers
    async with running(
        cluster, "n1", "n2", template=made, updateStrategy={"type": strategy}
    ) as (operator, _):
        await operator.run_all()
        (name,) = (await operator.placed())["n1"]
        status = {"status": {"phase": phase}}
        await operator.client.patch(PODS, "default", name, status, subresource="status")
        await settle(2)
        await operator.run_all()
        active = [pod for pod in await operator.pods() if pod.status.phase == "Running"]
        assert sorted(pod.spec.node_name for pod in active) == ["n1", "n2"]
        assert await operator.numbers() == (2, 2, 2, 2, 0)


async def test_pods_of_a_former_daemon_set_are_updated(cluster: Cluster) -> None:
    """Upstream leaves them as they are: the number of templates is the same."""
    async with running(cluster, "n1", "n2") as (operator, _):
        await set_image(operator, "app:v2")
        await operator.run_all()
        orphan = DeleteOptions(propagation_policy=PropagationPolicy.ORPHAN)
        await operator.client.delete(DAEMON_SETS, "default", "agent", orphan)
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
