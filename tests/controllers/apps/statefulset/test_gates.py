"""The stateful set controller with each value of its feature gates."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller_manager.api.apps.v1 import CONTROLLER_REVISIONS, STATEFUL_SETS
from controller_manager.client.builder import Connections
from controller_manager.manager.manager import ControllerManager
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, make_config, run_manager
from tests.controllers.apps.replicaset.test_gates import hold
from tests.controllers.apps.statefulset.builders import stateful_set_json
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime


def config_with(**gates: bool) -> Config:
    config = make_config(controllers=("statefulset-controller",))
    return replace(config, features=FeatureGates(gates))


@pytest.mark.parametrize(("gate", "answers"), [(True, [200]), (False, [200, 409])])
async def test_a_set_waits_for_its_own_writes_if_the_gate_says_so(
    cluster: Cluster, user: User, gate: bool, answers: list[int]
) -> None:
    """Without it, a sync on the stale cache writes a status that is refused."""
    free = hold(cluster, "statefulsets")
    config = config_with(StaleControllerConsistencyStatefulSet=gate)
    async with cluster.manager(config) as recording:
        obj = stateful_set_json(replicas=2, podManagementPolicy="Parallel")
        await user.create(STATEFUL_SETS, obj)
        await settle()
        recording.writes.clear()
        free.clear()
        for pod in await user.pods():
            await user.make_ready(pod.metadata.name)
            await settle(2)
        assert {each.path.rpartition("/")[2] for each in recording.writes} == {"status"}
        assert [each.status for each in recording.writes] == answers
        free.set()
        await settle()
        subject = await user.client.get(STATEFUL_SETS, "default", "web")
        assert subject.status.ready_replicas == 2


@pytest.mark.parametrize("strategy", ["RollingUpdate", "OnDelete"])
@pytest.mark.parametrize(("gate", "shown"), [(True, (1.0, 2.0)), (False, (None, None))])
async def test_the_metrics_of_unavailable_pods_come_with_their_gate(
    cluster: Cluster, user: User, gate: bool, shown: tuple[Any, Any], strategy: str
) -> None:
    """The allowed and the present number; no values once the set is gone."""
    config = config_with(MaxUnavailableStatefulSet=gate)
    connections = Connections(cluster.transport, root_ca="PEM")
    labels = {
        "statefulset_namespace": "default",
        "statefulset_name": "web",
        "pod_management_policy": "OrderedReady",
    }

    def values(manager: ControllerManager) -> tuple[Any, ...]:
        prefix = "statefulset_controller_statefulset"
        return tuple(
            manager._registry.get_sample_value(f"{prefix}_{name}", labels)
            for name in ("max_unavailable", "unavailable_replicas")
        )

    async with run_manager(connections, cluster.clock, cluster.rng, config) as manager:
        body = stateful_set_json(replicas=2, updateStrategy={"type": strategy})
        await user.create(STATEFUL_SETS, body)
        await settle()
        assert values(manager) == shown
        await user.client.delete(STATEFUL_SETS, "default", "web")
        await settle()
        assert values(manager) == (None, None)


@pytest.mark.parametrize(("gate", "count"), [(True, 1), (False, 2)])
async def test_a_new_default_is_no_change_of_the_template_if_the_gate_says_so(
    cluster: Cluster, user: User, gate: bool, count: int
) -> None:
    """The stored revision lacks what an API server fills in since its upgrade."""
    config = config_with(StatefulSetSemanticRevisionComparison=gate)
    async with cluster.manager(config):
        await user.create(STATEFUL_SETS, stateful_set_json(replicas=2))
        await settle()
    (written,) = (await user.client.list_page(CONTROLLER_REVISIONS)).items
    data = msgspec.json.decode(written.data)
    del data["spec"]["template"]["spec"]["dnsPolicy"]
    older = msgspec.structs.replace(
        written,
        metadata=msgspec.structs.replace(
            written.metadata, uid="", resource_version="", creation_timestamp=None
        ),
        data=msgspec.Raw(msgspec.json.encode(data)),
    )
    name = written.metadata.name
    await user.client.delete(CONTROLLER_REVISIONS, "default", name)
    await user.client.create(CONTROLLER_REVISIONS, older)
    async with cluster.manager(config):
        await settle()
        stored = (await user.client.list_page(CONTROLLER_REVISIONS)).items
        subject = await user.client.get(STATEFUL_SETS, "default", "web")
    assert len(stored) == count
    assert (subject.status.update_revision == name) is gate
