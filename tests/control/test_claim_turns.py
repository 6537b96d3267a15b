"""Claims of many pods leave time to other tasks."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS
from controller_manager.api.batch.v1 import JOBS
from controller_manager.control.claims import Claimer
from controller_manager.runtime.turns import Turns
from tests.clusters import Cluster, make_config
from tests.controllers.apps.statefulset.builders import stateful_set_json
from tests.controllers.batch.job.workload import job_json
from tests.controllers.builders import daemon_set_json, deployment_json
from tests.controllers.user import User, settle


@pytest.mark.looptime
async def test_each_controller_that_claims_pods_shares_the_turns_of_the_manager(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed: dict[str, bool] = {}
    claim: Any = Claimer.claim

    async def noted(self: Any, *arguments: Any) -> Any:
        if self._dependents.kind == "Pod":
            claimed[self._owner_resource.kind] = isinstance(self._turns, Turns)
        return await claim(self, *arguments)

    monkeypatch.setattr(Claimer, "claim", noted)
    async with cluster.nodes(), cluster.manager(make_config(controllers=("*",))):
        user = User(cluster)
        await user.create(DEPLOYMENTS, deployment_json(replicas=1))
        await user.create(STATEFUL_SETS, stateful_set_json("db", replicas=1))
        await user.create(DAEMON_SETS, daemon_set_json())
        await user.create(JOBS, job_json("sum"))
        await settle(10)
    kinds = ("DaemonSet", "Job", "ReplicaSet", "StatefulSet")
    assert claimed == dict.fromkeys(kinds, True)
