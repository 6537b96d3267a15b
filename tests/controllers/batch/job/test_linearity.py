"""A job of many completions costs in proportion to them: writes, syncs and looks."""

from collections import Counter
from typing import Any
from unittest import mock

import pytest

from controller_manager.controllers.batch.job import controller
from controller_manager.controllers.batch.job.status import evaluate
from tests.clusters import Cluster, RecordingTransport
from tests.controllers.batch.job.user import POD_SPEC, JobUser, job_config
from tests.controllers.user import settle

pytestmark = pytest.mark.looptime

FEW, MANY = 200, 1000
TIMES = MANY // FEW


async def cost_of(completions: int, parallelism: int) -> Counter[str]:
    """Run an indexed job to its end; return the numbers of writes and syncs."""
    cluster = Cluster()
    user = JobUser(cluster)
    seconds = {"devcluster/run-seconds": "5"}
    template = {"metadata": {"annotations": seconds}, "spec": POD_SPEC}
    syncs: Counter[str] = Counter()

    def counted(*arguments: Any, **more: Any) -> Any:
        syncs["syncs"] += 1
        return evaluate(*arguments, **more)

    with mock.patch.object(controller, "evaluate", counted):
        async with cluster.nodes(), cluster.manager(job_config()) as recording:
            await user.run(
                completions=completions,
                parallelism=parallelism,
                completionMode="Indexed",
                backoffLimitPerIndex=1,
                template=template,
            )
            await settle(30 + 8 * completions / parallelism)
    status = (await user.job()).status
    assert status.completed_indexes == f"0-{completions - 1}"
    assert status.completion_time is not None
    return syncs + _written(recording)


def _written(recording: RecordingTransport) -> Counter[str]:
    assert {each.status for each in recording.writes} == {200, 201}
    return Counter(
        f"{each.method} {'status' if each.path.endswith('/status') else 'pods'}"
        for each in recording.writes
    )


@pytest.mark.slow
async def test_waves_of_pods_cost_in_proportion_to_their_number() -> None:
    """Fifty run at a time. The writes of one pod are its creation and its release."""
    few, many = await cost_of(FEW, 50), await cost_of(MANY, 50)
    for cost, completions in ((few, FEW), (many, MANY)):
        assert cost["POST pods"] == cost["PATCH pods"] == completions
    for what in ("syncs", "PUT status"):
        assert many[what] <= TIMES * few[what], (few, many)
    # Each wave: the pods run, they have ended, they are counted, the next ones begin.
    assert few["PUT status"] <= 4 * FEW // 50
    assert few["syncs"] <= 4 * FEW // 50


@pytest.mark.slow
async def test_pods_that_run_together_cost_a_few_syncs() -> None:
    """That holds for any number of pods; 500 are counted at a time, as by upstream."""
    few, many = await cost_of(FEW, FEW), await cost_of(MANY, MANY)
    for cost, completions in ((few, FEW), (many, MANY)):
        assert cost["POST pods"] == cost["PATCH pods"] == completions
    assert few["PUT status"] <= few["syncs"] + 1 <= 6
    assert many["PUT status"] <= many["syncs"] <= 8
