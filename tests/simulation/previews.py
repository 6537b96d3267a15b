"""A preview beside the managers of a seed; all of them meet faults."""

import asyncio
import contextvars
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from controller_manager.client.builder import Connections
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import LoopClock
from controller_manager.devcluster.inmemory import InMemoryTransport, StreamingResponse
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import LeaderElectionConfig, PreviewConfig
from controller_manager.preview.report import Report
from controller_manager.registry import registry
from tests.clusters import EPOCH, ROOT_CA, TOKEN
from tests.simulation.faults import Faults
from tests.simulation.loop import PROCESS
from tests.simulation.managers import WorkClock
from tests.simulation.network import Connection
from tests.simulation.runner import run, simulated, use_and_disturb
from tests.simulation.transport import FaultyTransport
from tests.simulation.world import World

GRACE: Final = 900.0
"""Seconds: a manager in charge that meets faults may need so long for a write."""

_PROCESS: Final = 90
_READS: Final = frozenset(("GET", "HEAD"))


@dataclass
class Door:
    """The door of the API server, for one user: records the writes that come in."""

    world: World
    reads: int = 0
    writes: list[str] = field(default_factory=list)

    async def handle(self, request: Request) -> "Response | StreamingResponse":
        if request.method in _READS or "reviews" in request.path:
            self.reads += 1
        else:
            self.writes.append(f"{request.method} {request.path}")
        return await self.world.server.handle(request)


@dataclass(frozen=True, slots=True)
class Shadowed:
    """The result of one seed with a preview."""

    violations: tuple[str, ...]
    writes: tuple[str, ...]
    reads: int
    report: Report


def play_shadowed(seed: int, only: frozenset[str] | None = None) -> Shadowed:
    """Return the result of a seed; `only` allows the faults of some opportunities."""
    return run(_play(seed, only))


async def _play(seed: int, only: frozenset[str] | None) -> Shadowed:
    world = World(seed, Faults(seed, only), 1 + seed % 2)
    door = Door(world)
    async with simulated(world) as checks, _preview(world, door) as manager:
        await use_and_disturb(world, checks)
        await asyncio.sleep(3 * GRACE)
        assert manager.preview is not None
        report = manager.preview.report()
    return Shadowed(tuple(checks.violations), tuple(door.writes), door.reads, report)


@asynccontextmanager
async def _preview(world: World, door: Door) -> AsyncGenerator[ControllerManager, None]:
    """Run a preview while entered; where a manager would crash, a request hangs."""
    connection = Connection(InMemoryTransport(door, TOKEN))
    transport = FaultyTransport(connection, world.faults, "preview", _go_on)
    generic = replace(
        world.config.generic, leader_election=LeaderElectionConfig(leader_elect=False)
    )
    preview = PreviewConfig(enabled=True, grace=GRACE)
    manager = ControllerManager(
        replace(world.config, generic=generic, preview=preview),
        Connections(transport, root_ca=ROOT_CA),
        clock=LoopClock(EPOCH),
        rng=random.Random(f"{world.seed}/preview"),
        logger=silent_logger(),
        work_clock=WorkClock(),
        build=registry(),
    )
    context = contextvars.copy_context()
    context.run(PROCESS.set, _PROCESS)
    stop = asyncio.Event()
    running = asyncio.create_task(manager.run(stop), context=context)
    try:
        yield manager
    finally:
        stop.set()
        await running


def _go_on() -> None:
    """Let the preview live."""
