"""A thread with an event loop, in which a cluster runs beside any program."""

import asyncio
import selectors
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Generic, TypeVar

# An event loop in which time passes faster than outside

_HANDSHAKE: Final = 60.0
"""Seconds that asyncio gives a client for the handshake."""

_TOLERANCE: Final = 1e-6
"""Seconds added to a wait, so that the timer for which the loop waits is due."""


class _PacedSelector(selectors.DefaultSelector):
    """Waits for a fraction of each timeout, and counts the skipped time.

    Only waiting is shortened. Work takes its real time, and a wait never passes the
    timer at its end. So timers fire in their order, at their times, also on a machine
    that is too busy: no lease expires because its holder had no CPU.
    """

    def __init__(self, factor: float) -> None:
        super().__init__()
        self._factor = factor
        self.skipped = 0.0

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events, for the fraction of `timeout` seconds."""
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        began = time.monotonic()
        events = super().select(None if timeout is None else timeout / self._factor)
        waited = time.monotonic() - began
        passed = waited * self._factor
        if timeout is not None:
            passed = min(passed, timeout + _TOLERANCE)
        self.skipped += passed - waited
        return events


class PacedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes `factor` times as fast while it waits."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._paced = _PacedSelector(factor)
        super().__init__(self._paced)

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        """Listen; clients have as much of their own time for TLS as on other loops."""
        if options.get("ssl") is not None:
            seconds = _HANDSHAKE * self._factor
            options.setdefault("ssl_handshake_timeout", seconds)
        return await super().create_server(*args, **options)

    def time(self) -> float:
        """Return the seconds of this loop's own time."""
        return super().time() + self._paced.skipped


# The thread

T = TypeVar("T")
ResultT = TypeVar("ResultT")


class ClusterThread(Generic[T]):
    """Enters a context in a thread, and leaves it when :meth:`stop` is called.

    Callers may have an event loop or not: the thread has its own.
    """

    def __init__(
        self,
        context: Callable[[], AbstractAsyncContextManager[T]],
        loop_factory: Callable[[], asyncio.AbstractEventLoop],
    ) -> None:
        """Take the functions that make the context and the loop; nothing runs yet."""
        self._context = context
        self._loop_factory = loop_factory
        self._entered: Future[T] = Future()
        self._ended: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(
            target=self._run, name="devcluster", daemon=True
        )

    def start(self) -> "Future[T]":
        """Start; the result is what the context yields, or the error of entering."""
        self._thread.start()
        return self._entered

    def stop(self) -> "Future[None]":
        """Leave the context; the result has the error of the thread, if any."""
        if self._stop is not None and self._loop is not None and not self._ended.done():
            self._loop.call_soon_threadsafe(self._stop.set)
        return self._ended

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def run(self, work: Coroutine[Any, Any, ResultT]) -> "Future[ResultT]":
        """Run a coroutine in the thread's loop."""
        if self._loop is None or self._ended.done():
            work.close()
            raise RuntimeError("the cluster is not running")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[[], ResultT]) -> ResultT:
        """Call a function in the thread's loop; return its result."""

        async def work() -> ResultT:
            return function()

        return self.run(work()).result()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                runner.run(self._main())
        except BaseException as error:  # noqa: BLE001 - the waiting caller gets it
            if self._entered.done():
                self._ended.set_exception(error)
                return
            self._entered.set_exception(error)
        self._ended.set_result(None)

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._context() as entered:
            self._entered.set_result(entered)
            await self._stop.wait()
