"""The control loop, in which runs what must never wait: lease and endpoints.

In production that is a thread with an event loop of its own: a long turn of the main
loop delays neither lease nor probes, and a flood of handshakes delays no controller. In
tests on virtual time it is the main loop itself, so that there is one clock.

The main loop beats every five seconds. A turn of the loop that takes long delays the
beat, and the thread says so: in /livez, in a metric, and in the log with the stack of
the main thread. A leader whose main loop hangs for good must lose its lease on purpose:
it does no work, and the standby would.
"""

import asyncio
import concurrent.futures
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

from controller_manager.client.leadership.leader_election import LeadershipLost
from controller_manager.clock import Clock
from controller_manager.observability.defects import log_loop_errors
from controller_manager.observability.logs import Logger
from controller_manager.serving.main_loop import MainLoop, MainLoopBusy, SameLoop

ResultT = TypeVar("ResultT")


class ControlLoop(MainLoop, Protocol):
    """Runs work beside the main loop.

    These calls, and those of `MainLoop`, are the only ways between the two loops, apart
    from single numbers that one side writes and the other one reads.
    """

    async def run(self, work: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Run `work` beside the main loop; called in the main loop.

        Returns its result and raises its exceptions. If the caller is cancelled, the
        work is cancelled, too, and has ended when this returns.
        """

    def tell(self, news: Callable[[], object]) -> None:
        """Let the main loop call `news` when it can; called beside the main loop."""

    def silence(self) -> float:
        """Return for how many seconds the main loop is late with its next turn."""

    def problem(self) -> str | None:
        """Return the problem of a main loop that has stalled, `None` if it turns."""

    @property
    def is_hung(self) -> bool:
        """True if the main loop has not turned for so long that it must not lead."""


class InMainLoop(SameLoop):
    """Runs everything in the main loop, as tests on virtual time need."""

    is_hung = False

    async def run(self, work: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Await the work."""
        return await work()

    def tell(self, news: Callable[[], object]) -> None:
        """Call it."""
        news()

    def silence(self) -> float:
        """Return 0: a loop that can ask is not late."""
        return 0.0

    def problem(self) -> str | None:
        """Return `None`: a loop that can ask has not stalled."""
        return None


BEAT: Final = 5.0
"""Seconds between two beats, and between two looks at them while none is late.

A beat of an idle manager wakes two threads, for some 0.3 ms of CPU. With a beat each
second, the beats took most of the CPU time of an idle manager.
"""

_LATE_LOOK: Final = 1.0
"""Seconds between two looks while a beat is late by more than that."""

STALLED: Final = 10.0
"""Seconds without a turn of the main loop after which /livez fails.

The longest turns are collections of garbage: a second with 100,000 objects.
"""

HUNG: Final = 60.0
"""Seconds without a turn of the main loop after which the lease is not renewed."""


class Heartbeat:
    """The time of the last beat of the main loop; both threads may read it."""

    def __init__(self, clock: Clock, logger: Logger) -> None:
        self._clock = clock
        self._logger = logger
        self._main_thread = threading.get_ident()
        self._beat_at = clock.monotonic()
        self._is_reported = False
        self.is_hung = False
        """True if the main loop has not turned for `HUNG` seconds."""

    def silence(self) -> float:
        """Return for how many seconds the main loop is late with its beat."""
        return max(0.0, self._clock.monotonic() - self._beat_at - BEAT)

    def problem(self) -> str | None:
        """Return the problem of a main loop that has stalled, `None` if it turns."""
        seconds = self.silence()
        if seconds < STALLED:
            return None
        return f"the main event loop has not turned for {seconds:.1f} s"

    async def beat(self) -> None:
        """Beat for ever; runs in the main loop."""
        while True:
            self._beat_at = self._clock.monotonic()
            await asyncio.sleep(BEAT)

    async def watch(self) -> None:
        """Look at the beats for ever; runs in the loop of the other thread.

        The whole process may have been stopped (SIGSTOP, a suspended machine). Then
        both threads go on at the same moment, so one late beat proves nothing: the main
        loop hangs if it is late twice in a row.
        """
        late_before = False
        seconds = 0.0
        while True:
            await asyncio.sleep(BEAT if seconds < _LATE_LOOK else _LATE_LOOK)
            seconds = self.silence()
            late = seconds >= HUNG
            self._set_hung(seconds, hung=late and late_before)
            late_before = late
            self._report(seconds)

    def _set_hung(self, seconds: float, *, hung: bool) -> None:
        if hung and not self.is_hung:
            self._logger.error(
                "The main event loop hangs, the lease is not renewed any more",
                seconds=seconds,
            )
        self.is_hung = hung

    def _report(self, seconds: float) -> None:
        """Log once that the main loop has stalled, and where; and that it goes on."""
        if seconds < STALLED:
            if self._is_reported:
                self._logger.info("The main event loop turns again")
            self._is_reported = False
        elif not self._is_reported:
            self._is_reported = True
            self._logger.error(
                "The main event loop has stalled", seconds=seconds, stack=self.stack()
            )

    def stack(self) -> str:
        """Return the stack of the main thread, the innermost call last.

        A failure is returned as text: it must neither end the look at the beats, nor
        keep a process alive that has lost its lease.
        """
        frame = sys._current_frames().get(self._main_thread)  # noqa: SLF001 - the only way
        try:
            return "".join(traceback.format_stack(frame)) if frame is not None else ""
        except Exception as error:  # noqa: BLE001 - shown instead of the stack
            return f"the stack cannot be read: {error!r}"


_SWITCH_INTERVAL: Final = 0.001
"""Seconds after which a busy thread leaves the interpreter to one that waits for it.

A TLS handshake waits for it some ten times. With Python's five milliseconds a probe
took 31 to 45 ms (median; nine of ten less than 62 to 122) while the main loop ran
Python code, with one millisecond 16 (30 to 33). It costs nothing if no thread waits.
"""

LAST_PATIENCE: Final = 5.0
"""Seconds that the main loop has to take the news of a lost lease."""

_LAST_WAIT: Final = 5.0
"""Seconds that the end of the process waits for the thread."""

EndProcess = Callable[[str], None]
"""Ends the process at once, and logs the reason."""


class ControlThread(Heartbeat):
    """A thread with an event loop of its own; an asynchronous context of the main loop.

    See `ControlLoop` for the ways between the two loops.
    """

    def __init__(
        self,
        clock: Clock,
        logger: Logger,
        make_loop: Callable[[], asyncio.AbstractEventLoop],
        end_process: EndProcess,
    ) -> None:
        """Take the clock of the heartbeat, and the maker of the thread's loop.

        `end_process` is called in the thread if the main loop does not take the news
        that the lease is lost: a process that does not lead must not linger.
        """
        super().__init__(clock, logger)
        self._make_loop = make_loop
        self._end_process = end_process
        self._ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        # A daemon thread: if it is stuck, the process ends in spite of it.
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self.main: asyncio.AbstractEventLoop
        """The main loop, once this is entered."""
        self._ending: asyncio.Event
        self._usual_interval: float
        self._beating: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        """Start the thread, and the beat of the main loop."""
        self.main = asyncio.get_running_loop()
        self._beating = asyncio.create_task(self.beat(), name="heartbeat")
        self._usual_interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        self._thread.start()
        await asyncio.wrap_future(self._ready)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the thread, and cancel what still runs in it."""
        self._loop.call_soon_threadsafe(self._ending.set)
        await asyncio.to_thread(self._thread.join, _LAST_WAIT)
        if self._thread.is_alive():
            self._logger.error("The control thread does not end")
        sys.setswitchinterval(self._usual_interval)
        self._beating.cancel()
        await asyncio.gather(self._beating, return_exceptions=True)

    # In the thread

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._make_loop) as runner:
                runner.run(self._until_the_end())
        except BaseException as error:  # noqa: BLE001 - nothing renews the lease now
            if self._ready.done():
                self._end_process(f"the control thread failed: {error!r}")
            else:
                self._ready.set_exception(error)

    async def _until_the_end(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        log_loop_errors(self._logger)
        watching = asyncio.create_task(self.watch(), name="heartbeat-watch")
        self._ready.set_result(None)
        await self._ending.wait()
        watching.cancel()

    # From the main loop to the thread

    async def run(self, work: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Run `work` in the thread; see `ControlLoop.run`."""
        ended: asyncio.Future[asyncio.Task[ResultT]] = self.main.create_future()
        crossing = _Crossing(self, work, ended)
        self._loop.call_soon_threadsafe(crossing.start)
        cancelled: asyncio.CancelledError | None = None
        while not ended.done():
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError as error:
                cancelled = error
                self._loop.call_soon_threadsafe(crossing.cancel)
        if cancelled is not None:
            raise cancelled
        return ended.result().result()

    # From the thread to the main loop

    def tell(self, news: Callable[[], object]) -> None:
        """Let the main loop call `news`; see `ControlLoop.tell`."""
        self.main.call_soon_threadsafe(news)

    async def ask(self, question: Callable[[], ResultT], patience: float) -> ResultT:
        """Return the answer of the main loop; see `MainLoop.ask`."""
        answered: asyncio.Future[ResultT] = self._loop.create_future()
        is_over = threading.Event()

        def answer() -> None:
            if is_over.is_set():
                return
            try:
                result = question()
            except Exception as error:  # noqa: BLE001 - raised where it was asked
                self._loop.call_soon_threadsafe(_fail, answered, error)
            else:
                self._loop.call_soon_threadsafe(_succeed, answered, result)

        try:
            self.main.call_soon_threadsafe(answer)
            async with asyncio.timeout(patience):
                return await answered
        except TimeoutError:
            is_over.set()
            seconds = max(patience, self.silence())
            msg = f"the main event loop has been busy for {seconds:.1f} s"
            raise MainLoopBusy(msg) from None
        finally:
            is_over.set()

    def expect_an_end(self, error: BaseException) -> Callable[[], None]:
        """End the process soon, unless the main loop calls what this returns."""
        timer = self._loop.call_later(LAST_PATIENCE, self._give_up, error)
        return lambda: _call_in(self._loop, timer.cancel)

    def _give_up(self, error: BaseException) -> None:
        self._end_process(
            f"leader election lost: {error}; the main event loop does not answer, its "
            f"stack is:\n{self.stack()}"
        )


@dataclass(slots=True)
class _Crossing:
    """One piece of work of the main loop that runs in the thread."""

    thread: ControlThread
    work: Callable[[], Coroutine[Any, Any, Any]]
    ended: "asyncio.Future[asyncio.Task[Any]]"
    task: "asyncio.Task[Any] | None" = None

    # In the thread

    def start(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self.work())
        self.task.add_done_callback(self._deliver)

    def cancel(self) -> None:
        assert self.task is not None  # noqa: S101 - it was started before
        self.task.cancel()

    def _deliver(self, task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        taken = None
        if isinstance(error, LeadershipLost):
            taken = self.thread.expect_an_end(error)
        _call_in(self.thread.main, self._take, task, taken)

    # In the main loop

    def _take(
        self, task: "asyncio.Task[Any]", taken: Callable[[], None] | None
    ) -> None:
        if taken is not None:
            taken()
        if not self.ended.done():
            self.ended.set_result(task)


def _call_in(
    loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: object
) -> None:
    """Let a loop call a function when it can; a loop that is closed calls nothing."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(call, *arguments)


def _succeed(answered: "asyncio.Future[ResultT]", result: ResultT) -> None:
    if not answered.done():
        answered.set_result(result)


def _fail(answered: "asyncio.Future[Any]", error: Exception) -> None:
    if not answered.done():
        answered.set_exception(error)
