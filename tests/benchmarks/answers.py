"""How late an endpoint answers, asked steadily."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import aiohttp

_EVERY: Final = 0.01
_CONNECTIONS: Final = 4
"""Kept open: a new connection would cost a handshake each time."""


@dataclass(slots=True)
class Answers:
    """When each answer was due, and how many seconds it was waited for."""

    waits: list[tuple[float, float]] = field(default_factory=list)

    def until(self, moment: float) -> list[float]:
        """Return, in order, the waits that began before a moment.

        The moment is one of `time.monotonic`.
        """
        return sorted(wait for due, wait in self.waits if due < moment)


@asynccontextmanager
async def asked(url: str) -> AsyncGenerator[Answers, None]:
    """Ask a hundred times a second while entered; yield what came of it.

    The next question does not wait for the last answer: a pause of 400 ms counts
    as the forty late answers that it is. A question without an answer counts until
    its connection is closed. Nothing counts before the first answer.
    """
    answers = Answers()
    asking = asyncio.create_task(_ask_on(url, answers))
    try:
        yield answers
    finally:
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking


async def _ask_on(url: str, answers: Answers) -> None:
    connector = aiohttp.TCPConnector(ssl=False, limit=_CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector) as session:
        while not await _is_answered(session, url):  # noqa: ASYNC110 - a process
            await asyncio.sleep(_EVERY)
        async with asyncio.TaskGroup() as group:
            due = time.monotonic()
            while True:
                group.create_task(_ask(session, url, due, answers))
                due += _EVERY
                await asyncio.sleep(max(0.0, due - time.monotonic()))


async def _is_answered(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url):
            return True
    except aiohttp.ClientError:
        return False  # it does not serve yet


async def _ask(
    session: aiohttp.ClientSession, url: str, due: float, answers: Answers
) -> None:
    await _is_answered(session, url)
    answers.waits.append((due, time.monotonic() - due))
