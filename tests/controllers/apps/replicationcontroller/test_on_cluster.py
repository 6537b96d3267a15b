"""Replication controllers on a cluster in memory."""

from dataclasses import replace

import pytest

from controller_manager.api.core.v1 import REPLICATION_CONTROLLERS
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, make_config
from tests.controllers.builders import replication_controller_json
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("gate", [True, False])
async def test_the_cheap_pod_goes_first_if_costs_count(
    cluster: Cluster, user: User, gate: bool
) -> None:
    """Else the one that has restarted most (TestPodDeletionCost of upstream)."""
    config = replace(
        make_config(controllers=("replicationcontroller-controller",)),
        features=FeatureGates({"PodDeletionCost": gate}),
    )
    async with cluster.manager(config):
        await user.create(
            REPLICATION_CONTROLLERS, replication_controller_json(replicas=2)
        )
        dear, cheap = await user.make_dear_and_cheap_pods()
        await user.patch(REPLICATION_CONTROLLERS, "rs", {"spec": {"replicas": 1}})
        await settle()
        (left,) = await user.pods()
        assert left.metadata.name == (dear if gate else cheap)
