"""Requests and answers, as tests/data/devcluster/scenarios/csi has them."""

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.scenarios import play, scenarios


@pytest.mark.looptime
@pytest.mark.parametrize(("case", "values"), scenarios("csi"))
async def test_a_scenario_is_answered(
    cluster: Cluster, case: JSON, values: JSON
) -> None:
    await play(cluster, case, values)
