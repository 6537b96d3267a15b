"""A preview beside a manager finds no divergence while the recordings are played."""

from collections.abc import AsyncGenerator

import pytest

from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN
from tests.conformance.managers import SwitchedManager
from tests.conformance.recordings import RECORDINGS, Recording
from tests.meddler import Meddler
from tests.preview.shadow import previewing, settle, shadow
from tests.streams import PassedStream

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


class CutStream(PassedStream):
    """A watch that breaks at its third piece."""

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        pieces = 0
        async for chunk in self.inner.chunks():
            pieces += 1
            if pieces == 3:
                msg = "reset by peer"
                raise TransportError(msg)
            yield chunk


class Shaky(Meddler):
    """Answers each third request with 503, and breaks all watches."""

    requests = 0
    cut = 0

    async def request(self, request: Request) -> Response:
        self.requests += 1
        if self.requests % 3 == 0:
            return Response(503, {}, b"")
        return await super().request(request)

    async def stream(self, request: Request) -> Stream:
        self.cut += 1
        return CutStream(await super().stream(request))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rolling-update-stepwise", "job-retries"])
async def test_a_preview_agrees_in_spite_of_failing_requests(name: str) -> None:
    """It is late then, and takes no old state for a decision."""
    await _agrees(RECORDINGS[name], shakes=True)


async def _agrees(scenario: Recording, *, shakes: bool = False) -> None:
    """Play a scenario beside a preview, which writes nothing and finds nothing."""
    cluster = scenario.cluster()
    transport = InMemoryTransport(cluster.server, TOKEN)
    config = scenario.config()
    shaky = Shaky(cluster.transport) if shakes else None
    async with (
        SwitchedManager(lambda: cluster.manager(config)) as manager,
        shadow(
            cluster, previewing(config, grace=GRACE, dry_run=True), shaky
        ) as running,
    ):
        form = scenario.form()
        player = scenario.player(transport, cluster.clock, manager, form)
        await player.play(scenario.steps)
        await settle(GRACE + 5)
        assert running.report.divergences == []
    assert shaky is None or min(shaky.requests, shaky.cut) > 5
