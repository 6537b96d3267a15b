"""The deployment controller with each value of its feature gates."""

from dataclasses import replace

import msgspec
import pytest

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
)
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, make_config
from tests.controllers.builders import deployment_json
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime


def config_with(gates: dict[str, bool]) -> Config:
    return replace(make_config(), features=FeatureGates(gates))


@pytest.mark.parametrize("gate", [True, False])
async def test_terminating_pods_are_counted_if_the_gate_says_so(
    cluster: Cluster, user: User, gate: bool
) -> None:
    """In the status of the deployment and of its replica set."""
    config = config_with({"DeploymentReplicaSetTerminatingReplicas": gate})
    async with cluster.nodes(), cluster.manager(config):
        await user.create(DEPLOYMENTS, deployment_json(replicas=3))
        await settle()
        await user.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
        await settle(10)
        (replica_set,) = (await user.replica_sets()).values()
        expected = 2 if gate else None
        assert replica_set.status.terminating_replicas == expected
        assert (await user.deployment()).status.terminating_replicas == expected


async def test_each_status_of_a_rollout_has_a_number_of_terminating_pods(
    cluster: Cluster, user: User
) -> None:
    """A replica set that was just created does not take the number away."""
    async with cluster.nodes(), cluster.manager() as recording:
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle()
        await user.set_image("app:v2")
        await settle(120)
        bodies = [
            msgspec.json.decode(each.body)
            for each in recording.writes
            if each.path.endswith("/deployments/web/status") and each.status == 200
        ]
    numbers = [body["status"].get("terminatingReplicas") for body in bodies]
    assert numbers[:2] == [0, 0]
    assert max(numbers) > 0
    assert numbers[-1] == 0
