"""Questions to the main event loop, from the thread that serves the endpoints.

The objects of the main loop change at any moment for another thread: a dict that grows
while it is iterated raises an exception. So a page that shows them is made in the main
loop. A main loop that is busy does not answer, and the page says so.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

AnswerT = TypeVar("AnswerT")

PROBE_PATIENCE: Final = 0.02
"""Seconds that a probe waits for the main loop before it shows the last answer."""

ANSWER_PATIENCE: Final = 1.0
"""Seconds that a page waits for the main loop before it says that the loop is busy."""


class MainLoopBusy(Exception):
    """The main loop did not answer in time; the message says since when it is busy."""


class MainLoop(Protocol):
    """Answers questions in the main loop."""

    async def ask(self, question: Callable[[], AnswerT], patience: float) -> AnswerT:
        """Return the answer of `question`, which is called in the main loop.

        Raises MainLoopBusy if it was not called within `patience` seconds; it is not
        called later. Its own exceptions are raised.
        """

    def stack(self) -> str:
        """Return the stack of the main loop's thread; empty if that is this thread."""


class SameLoop:
    """The main loop serves the endpoints itself, so it answers at once."""

    async def ask(
        self,
        question: Callable[[], AnswerT],
        patience: float,  # noqa: ARG002 - the protocol's
    ) -> AnswerT:
        """Call `question`."""
        return question()

    def stack(self) -> str:
        """Return nothing: a loop that asks for its own stack is not stuck."""
        return ""


class LastAnswer(Generic[AnswerT]):
    """The answer to one question; the last one if the main loop is busy.

    Probes that come together share one question, and the time for its answer. So a
    flood of probes costs the main loop one question a turn.
    """

    def __init__(
        self, main: MainLoop, question: Callable[[], AnswerT], before: AnswerT
    ) -> None:
        self._main = main
        self._question = question
        self._last = before
        self._asking: asyncio.Task[None] | None = None
        self._give_up_at = 0.0

    async def get(self) -> AnswerT:
        """Return the answer; the last one if there is none within a moment."""
        now = asyncio.get_running_loop().time()
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(), name="question")
            self._give_up_at = now + PROBE_PATIENCE
        if self._give_up_at > now:
            await asyncio.wait((self._asking,), timeout=self._give_up_at - now)
        if self._asking.done():
            self._asking.result()
        return self._last

    async def _ask(self) -> None:
        with suppress(MainLoopBusy):  # a check of its own says that
            self._last = await self._main.ask(self._question, ANSWER_PATIENCE)
