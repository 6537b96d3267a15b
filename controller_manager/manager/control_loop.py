"""The control loop, in which runs what must never wait: lease and endpoints.

In production that is a thread with an event loop of its own (`control_thread`). In
tests on virtual time it is the main loop itself, so that there is one clock.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from controller_manager.serving.main_loop import MainLoop, SameLoop

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
