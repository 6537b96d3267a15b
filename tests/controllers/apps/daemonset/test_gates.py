"""The daemon set controller with each value of its feature gates."""

from dataclasses import replace

import pytest

from controller_manager.api.apps.v1 import DAEMON_SETS
from controller_manager.api.core.v1 import NODES
from controller_manager.client.rest.client import PatchType
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.controllers.apps.daemonset.fixtures import Operator, config
from tests.controllers.apps.replicaset.test_gates import creations, hold
from tests.controllers.builders import daemon_set_json, template
from tests.controllers.user import settle

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize(("gate", "answers"), [(True, [200]), (False, [200, 409])])
async def test_a_daemon_set_waits_for_its_own_writes_if_the_gate_says_so(
    cluster: Cluster, *, gate: bool, answers: list[int]
) -> None:
    """Without it, a sync on the stale cache writes a status that is refused."""
    free = hold(cluster, "daemonsets")
    gates = FeatureGates({"StaleControllerConsistencyDaemonSet": gate})
    operator = Operator(cluster)
    for name in ("n1", "n2"):
        await operator.add_node(name)
    async with cluster.manager(replace(config(), features=gates)) as recording:
        await operator.create(DAEMON_SETS, daemon_set_json())
        await settle()
        recording.writes.clear()
        free.clear()
        for pod in await operator.pods():
            await operator.bind(pod)
            await settle(2)
        assert {each.path.rpartition("/")[2] for each in recording.writes} == {"status"}
        assert [each.status for each in recording.writes] == answers
        free.set()
        await settle()
        assert await operator.numbers() == (2, 2, 2, 2, 0)


@pytest.mark.parametrize("gate", [True, False])
async def test_a_lagging_watch_of_pods_makes_no_surplus_in_either_position(
    cluster: Cluster, *, gate: bool
) -> None:
    """Expectations work without the versions of written objects."""
    free = hold(cluster, "pods")
    gates = FeatureGates({"StaleControllerConsistencyDaemonSet": gate})
    operator = Operator(cluster)
    for name in ("n1", "n2", "n3"):
        await operator.add_node(name)
    async with cluster.manager(replace(config(), features=gates)) as recording:
        free.clear()
        await operator.create(DAEMON_SETS, daemon_set_json())
        for number in range(30):
            await settle(30)
            poke = {"metadata": {"annotations": {"poke": str(number)}}}
            await operator.patch(DAEMON_SETS, "agent", poke)
        assert creations(recording.writes) == 3
        free.set()
        await settle(900)
        assert creations(recording.writes) == 3
        assert await operator.numbers() == (3, 3, 3, 0, 0)


@pytest.mark.parametrize(("gate", "nodes"), [(True, {"n1"}), (False, set())])
async def test_tolerations_compare_numbers_if_the_gate_says_so(
    cluster: Cluster, *, gate: bool, nodes: set[str]
) -> None:
    """An API server takes such tolerations only with the same gate."""
    gates = FeatureGates({"TaintTolerationComparisonOperators": gate})
    operator = Operator(cluster)
    await operator.add_node("n1")
    taint = {"key": "load", "value": "5", "effect": "NoSchedule"}
    patch = {"spec": {"taints": [taint]}}
    await operator.client.patch(NODES, "", "n1", patch, PatchType.MERGE)
    spec = template(app="agent")
    below = {"key": "load", "operator": "Lt", "value": "9", "effect": "NoSchedule"}
    spec["spec"]["tolerations"] = [below]
    async with cluster.manager(replace(config(), features=gates)):
        await operator.create(DAEMON_SETS, daemon_set_json(template=spec))
        await settle(5)
        assert (await operator.placed()).keys() == nodes
