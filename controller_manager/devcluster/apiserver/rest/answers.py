"""Answers for which a request waits, such as those of webhooks.

The server is synchronous. A part that must wait for an answer raises `Pending`: the
server waits, and attempts the same again, with the answer at hand.
"""

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Pending(Exception):
    """A request waits for an answer.

    `wait` returns once the answer is remembered. Then the server attempts the same
    again.
    """

    def __init__(self, wait: Callable[[], Awaitable[None]]) -> None:
        super().__init__("a request waits for an answer")
        self.wait = wait


class Answers(Protocol):
    """The answers that the attempts of one request have got so far."""

    def remember(self, key: Hashable, value: Any) -> None:
        """Keep an answer for the next attempts."""
        ...

    def recall(self, key: Hashable) -> Any:
        """Return the answer of an earlier attempt, `None` if there is none."""
        ...


class ReadAnswers:
    """The answers of a request that changes nothing; a `Submission` has its own."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Any] = {}

    def remember(self, key: Hashable, value: Any) -> None:
        """Keep an answer for the next attempts."""
        self._found[key] = value

    def recall(self, key: Hashable) -> Any:
        """Return the answer of an earlier attempt, `None` if there is none."""
        return self._found.get(key)


async def settled(read: Callable[[], T]) -> T:
    """Return what `read` returns, once all answers that it needs are there."""
    while True:
        try:
            return read()
        except Pending as pending:
            waiting = pending
        await waiting.wait()
