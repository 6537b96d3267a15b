"""Measure the latency of an endpoint at a steady rate of requests."""

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
    """When each answer was due, and how many seconds it took."""

    waits: list[tuple[float, float]] = field(default_factory=list)

    def until(self, moment: float) -> list[float]:
        """Return, in order, the waits of requests that were due before a moment.

        The moment is one of `time.monotonic`.
        """
        return sorted(wait for due, wait in self.waits if due < moment)


@asynccontextmanager
async def steady_requests(url: str) -> AsyncGenerator[Answers, None]:
    """Send a hundred requests a second while entered; yield the waits.

    A request does not wait for the answer to the last one: a pause of 400 ms counts
    as forty late answers. A request without an answer counts until its connection is
    closed. Nothing counts before the first answer.
    """
    answers = Answers()
    asking = asyncio.create_task(_send_on(url, answers))
    try:
        yield answers
    finally:
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking


async def _send_on(url: str, answers: Answers) -> None:
    connector = aiohttp.TCPConnector(ssl=False, limit=_CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector) as session:
        while not await _is_answered(session, url):  # noqa: ASYNC110 - a process
            await asyncio.sleep(_EVERY)
        async with asyncio.TaskGroup() as group:
            due = time.monotonic()
            while True:
                group.create_task(_send(session, url, due, answers))
                due += _EVERY
                await asyncio.sleep(max(0.0, due - time.monotonic()))


async def _is_answered(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url):
            return True
    except aiohttp.ClientError:
        return False  # the manager does not serve yet


async def _send(
    session: aiohttp.ClientSession, url: str, due: float, answers: Answers
) -> None:
    await _is_answered(session, url)
    answers.waits.append((due, time.monotonic() - due))
