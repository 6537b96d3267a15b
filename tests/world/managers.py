"""Managers that crash, pause, continue, and start again."""

import asyncio
import contextvars
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from controller_manager.client.builder import Connections
from controller_manager.client.leadership.leader_election import LeadershipLost
from controller_manager.clock import LoopClock
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import silent_logger
from controller_manager.registry import registry
from tests.clusters import EPOCH, ROOT_CA, TOKEN

from .faults import START_FAULTS
from .loop import PROCESS, VirtualLoop
from .network import Connection
from .transport import FaultyTransport, Observer

if TYPE_CHECKING:
    from .world import World

_MOST_SKEW: Final = 30.0
"""Seconds by which a manager's wall clock may be wrong."""


_LOOK: Final = 0.0001
"""Seconds of work, on the simulated clock, each time a worker takes a key."""


class WorkClock:
    """The machine's time, which only work advances: the same in each run."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def __call__(self) -> float:
        self._seconds += _LOOK
        return self._seconds


class SettableClock(LoopClock):
    """A wall clock that somebody may set while it runs; monotonic time goes on."""

    def set_error(self, seconds: float) -> None:
        """Let the clock be wrong by some seconds from now on."""
        self._epoch = EPOCH + timedelta(seconds=seconds)


@dataclass
class Manager:
    """A manager that is started again whenever it ends; one run at a time."""

    world: "World"
    number: int
    observe: "Callable[[Manager], Observer]"
    connection: Connection = field(init=False)
    manager: ControllerManager | None = None
    transport: FaultyTransport | None = None
    task: "asyncio.Task[None] | None" = None
    starts: int = 0
    clock: SettableClock = field(default_factory=lambda: SettableClock(EPOCH))
    """The wall clock of this run."""

    def __post_init__(self) -> None:
        self.connection = Connection(InMemoryTransport(self.world.server, TOKEN))

    async def run(self) -> None:
        """Run forever; start again a few seconds after each end."""
        while True:
            await self._run_once()
            noise = self.world.faults.noise(f"restart of {self.number}")
            await asyncio.sleep(1 + 4 * noise)

    async def _run_once(self) -> None:
        self.starts += 1
        name = f"manager {self.number}"
        faults = self.world.faults
        now = self.connection.now()
        skew = faults.draw(START_FAULTS, name, now)
        seconds = _MOST_SKEW * (2 * skew.share - 1) if skew is not None else 0.0
        self.transport = FaultyTransport(
            self.connection, faults, name, self.crash, self.observe(self)
        )
        self.clock = SettableClock(EPOCH + timedelta(seconds=seconds))
        self.manager = ControllerManager(
            self.world.config,
            Connections(self.transport, root_ca=ROOT_CA),
            clock=self.clock,
            rng=random.Random(f"{self.world.seed}/{self.number}/{self.starts}"),
            logger=silent_logger(),
            work_clock=WorkClock(),
            build=registry(),
        )
        context = contextvars.copy_context()
        context.run(PROCESS.set, self.number + 1)
        self.task = asyncio.create_task(
            self.manager.run(asyncio.Event()), context=context
        )
        try:
            await asyncio.wait((self.task,))
        finally:
            self.resume()
            self.transport.alive = False
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        if self.task.cancelled():
            return
        error = self.task.exception()
        if error is not None and not _is_expected(error):
            self.world.defects.append(error)

    @property
    def leads(self) -> bool:
        """Tell whether it holds the lease, by its own knowledge."""
        elector = self.manager.elector if self.manager is not None else None
        return elector is not None and elector.seconds_left() > 0

    @property
    def is_paused(self) -> bool:
        """Tell whether its process is stopped."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return loop.is_stopped(self.number + 1)

    def set_clock(self, error: float) -> None:
        """Set the wall clock of the running process wrong by `error` seconds."""
        self.clock.set_error(error)

    def crash(self) -> None:
        """End the process at once: nothing that it still does has any effect."""
        self.resume()
        if self.transport is not None:
            self.transport.alive = False
        if self.task is not None:
            self.task.cancel()

    def pause(self, seconds: float) -> None:
        """Stop the process for some seconds; all others go on."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.stop_process(self.number + 1)
        loop.call_later(seconds, self.resume, context=contextvars.Context())

    def resume(self) -> None:
        """Let the process continue, if it is stopped."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.continue_process(self.number + 1)


def _is_expected(error: BaseException) -> bool:
    """Tell whether a manager may end with this error: it has lost the lease."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_expected(each) for each in error.exceptions)
    return isinstance(error, LeadershipLost)
