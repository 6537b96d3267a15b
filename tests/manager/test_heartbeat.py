"""The beat of the main loop, and the look at it, on virtual time."""

import asyncio
import io
import traceback

import pytest

from controller_manager.manager.control_loop import HUNG, STALLED, Heartbeat
from controller_manager.observability.logs import make_logger
from tests.clusters import Cluster

pytestmark = pytest.mark.looptime


class Watched:
    """A heartbeat that is watched; the test beats, or does not."""

    def __init__(self, cluster: Cluster) -> None:
        self.log = io.StringIO()
        self.heart = Heartbeat(cluster.clock, make_logger(stream=self.log))
        self.watching = asyncio.create_task(self.heart.watch())
        self._beating: asyncio.Task[None] | None = None

    def beat(self) -> None:
        self._beating = asyncio.create_task(self.heart.beat())

    async def skip_beats(self, seconds: float) -> None:
        assert self._beating is not None
        self._beating.cancel()
        await asyncio.sleep(seconds)

    async def end(self) -> None:
        for each in filter(None, (self.watching, self._beating)):
            each.cancel()
            await asyncio.gather(each, return_exceptions=True)


async def test_a_loop_that_beats_is_well(cluster: Cluster) -> None:
    watched = Watched(cluster)
    watched.beat()
    await asyncio.sleep(1000)
    assert watched.heart.silence() == 0
    assert watched.heart.problem() is None
    assert not watched.heart.is_hung
    assert watched.log.getvalue() == ""
    await watched.end()


async def test_a_stalled_loop_is_reported_once(cluster: Cluster) -> None:
    watched = Watched(cluster)
    watched.beat()
    await asyncio.sleep(5)
    await watched.skip_beats(STALLED + 5)
    problem = watched.heart.problem()
    assert problem is not None
    assert problem.startswith("the main event loop has not turned for 1")
    assert not watched.heart.is_hung
    watched.beat()
    await asyncio.sleep(5)
    assert watched.heart.problem() is None
    stalled, turns = watched.log.getvalue().splitlines()
    assert '"The main event loop has stalled"' in stalled
    assert 'stack="  File' in stalled
    assert '"The main event loop turns again"' in turns
    await watched.end()


async def test_a_loop_that_hangs_is_hung_until_it_turns(cluster: Cluster) -> None:
    """Then its lease must not be renewed."""
    watched = Watched(cluster)
    watched.beat()
    await asyncio.sleep(5)
    await watched.skip_beats(HUNG - 2)
    hung = [watched.heart.is_hung]
    await asyncio.sleep(6)
    hung.append(watched.heart.is_hung)
    assert hung == [False, True]
    assert watched.log.getvalue().count("hangs, the lease is not renewed") == 1
    watched.beat()
    await asyncio.sleep(2)
    assert not watched.heart.is_hung
    await watched.end()


async def test_a_process_that_was_stopped_for_a_while_does_not_hang(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After SIGCONT the watch may look before the main loop beats."""
    watched = Watched(cluster)
    watched.beat()
    await asyncio.sleep(5.5)
    monotonic, stopped = cluster.clock.monotonic, 1000.0
    monkeypatch.setattr(cluster.clock, "monotonic", lambda: monotonic() + stopped)
    assert watched.heart.silence() > HUNG
    hung = []
    for _ in range(40):
        await asyncio.sleep(0.1)
        hung.append(watched.heart.is_hung)
    assert not any(hung)
    await watched.end()


async def test_a_stack_that_cannot_be_read_does_not_end_the_look(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A main loop that hangs costs the lease in spite of it."""

    def fail(_: object) -> list[str]:
        raise MemoryError

    monkeypatch.setattr(traceback, "format_stack", fail)
    watched = Watched(cluster)
    watched.beat()
    await asyncio.sleep(5)
    await watched.skip_beats(HUNG + 5)
    assert watched.heart.is_hung
    assert "the stack cannot be read: MemoryError()" in watched.log.getvalue()
    await watched.end()
