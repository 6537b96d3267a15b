"""A preview beside a manager finds no divergence while the recordings are played."""

import pytest

from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN
from tests.conformance.managers import SwitchedManager
from tests.conformance.recordings import RECORDINGS, Recording
from tests.preview.shadow import previewing, settle, shadow

pytestmark = pytest.mark.looptime

GRACE = 30.0


QUICK = (
    "auth-sa-tokens",
    "cron-run",
    "ds-rolling",
    "eps-pods-come-and-go",
    "gc-foreground-waits-for-pods",
    "hpa-cpu-up-and-down",
    "job-parallelism",
    "job-retries",
    "namespace-held-by-a-finalizer",
    "node-taint-evicts",
    "quota-pods",
    "rolling-update-stepwise",
    "scale-up-and-down",
    "sts-rolling-update",
    "vol-wait-for-consumer",
)


@pytest.mark.parametrize("name", QUICK)
async def test_a_preview_agrees_in_one_scenario_of_each_kind(name: str) -> None:
    await _agrees(RECORDINGS[name])


@pytest.mark.nightly
@pytest.mark.parametrize("name", [each for each in RECORDINGS if each not in QUICK])
async def test_a_preview_agrees_in_each_scenario(name: str) -> None:
    await _agrees(RECORDINGS[name])


async def _agrees(scenario: Recording) -> None:
    """Play a scenario beside a preview, which writes nothing and finds nothing."""
    cluster = scenario.cluster()
    transport = InMemoryTransport(cluster.server, TOKEN)
    config = scenario.config()
    async with (
        SwitchedManager(lambda: cluster.manager(config)) as manager,
        shadow(cluster, previewing(config, grace=GRACE, dry_run=True)) as running,
    ):
        form = scenario.form()
        player = scenario.player(transport, cluster.clock, manager, form)
        await player.play(scenario.steps)
        await settle(GRACE + 5)
        assert running.report.divergences == []
