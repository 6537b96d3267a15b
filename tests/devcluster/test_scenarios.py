"""Requests and answers, as tests/data/devcluster/scenarios has them."""

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.scenarios import play, scenarios

DIRECTORIES = ("apiserver", "csi", "kubelet", "registry", "scheduler")
"""All but those of admission, whose cluster has all plugins."""


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("case", "values"), [case for each in DIRECTORIES for case in scenarios(each)]
)
async def test_a_scenario_is_answered(
    cluster: Cluster, case: JSON, values: JSON
) -> None:
    await play(cluster, case, values)
