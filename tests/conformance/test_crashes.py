"""A recording ends the same if the manager ends after each write that it makes.

So each state between two writes is one that another process finds, with empty caches
and without a memory.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN, Cluster, RecordingTransport
from tests.conformance.managers import SwitchedManager
from tests.conformance.recordings import RECORDINGS, Recording

pytestmark = [pytest.mark.looptime, pytest.mark.nightly]

PLAYED = (
    "create-and-become-available",
    "recreate-waits-for-old-pods",
    "replica-set-heals",
    "rolling-update-stepwise",
    "ds-nodes",
)
"""Recordings in which nothing happens at a moment that a start of the manager moves."""


RESTART = 0.5
"""Seconds from the end of a process to the start of the next."""


class Mortal(RecordingTransport):
    """Ends the process right after its first write: no later request is sent.

    Its events are, so that the next process need not wait for its end.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self.ended = asyncio.Event()

    async def request(self, request: Request) -> Response:
        if self.ended.is_set() and "/events" not in request.path:
            msg = "the process has ended"
            raise TransportError(msg)
        answer = await super().request(request)
        if self.writes:
            self.ended.set()
        return answer


@asynccontextmanager
async def mortal(
    cluster: Cluster, scenario: Recording
) -> AsyncGenerator[RecordingTransport, None]:
    """Run one process after the other while entered; yield the writes of all."""
    lives = RecordingTransport(cluster.transport)

    async def live() -> None:
        while True:
            transport = Mortal(cluster)
            try:
                async with cluster.manager(scenario.config(), transport):
                    await transport.ended.wait()
            finally:
                lives.writes += transport.writes
            await asyncio.sleep(RESTART)

    living = asyncio.create_task(live())
    try:
        yield lives
    finally:
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)


async def play(
    scenario: Recording,
    cluster: Cluster,
    run: Callable[[], AbstractAsyncContextManager[RecordingTransport]],
) -> list[JSON]:
    """Return the checkpoints without events: a process that ends loses some."""
    async with SwitchedManager(run) as manager:
        player = scenario.player(
            InMemoryTransport(cluster.server, TOKEN),
            cluster.clock,
            manager,
            quiet=scenario.settled_after,
            patience=3 * scenario.settled_after,
        )
        checkpoints = await player.play(scenario.steps)
    for each in checkpoints:
        each.get("state", {}).pop("Event", None)
    assert manager.writes
    return checkpoints


@pytest.mark.parametrize("name", PLAYED)
async def test_a_recording_ends_the_same_if_each_write_is_the_last_of_its_process(
    name: str,
) -> None:
    scenario = RECORDINGS[name]
    one, other = scenario.cluster(), scenario.cluster()
    whole = await play(
        scenario, one, lambda: one.manager(scenario.config(), one.transport)
    )
    assert await play(scenario, other, lambda: mortal(other, scenario)) == whole
