"""Answers: objects as JSON, Status objects, and pages that are sent piece by piece.

No answer has the header ``Server``, as from upstream: the HTTP library would name
itself and the version of Python there.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import Any, Final

from aiohttp import hdrs, web

from .main_loop import ANSWER_PATIENCE, MainLoop, MainLoopBusy

COMMON_HEADERS: Final = {
    "Cache-Control": "no-cache, private",
    "X-Content-Type-Options": "nosniff",
}
"""The headers of every answer."""

_INTERACTIVE_CLIENTS: Final = ("curl", "Wget", "Mozilla/5.0")


async def leave_out_server(_: web.Request, answer: web.StreamResponse) -> None:
    """Remove ``Server`` from an answer whose headers are complete."""
    answer.headers.popall(hdrs.SERVER, None)


class Streamed(web.StreamResponse):
    """An answer without ``Server`` that no application prepares."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.popall(hdrs.SERVER, None)


class Whole(Streamed, web.Response):
    """Such an answer whose body is known when it begins."""


def refusal(status: int) -> Whole:
    """Return an answer that says no more than its code, as Go's server does."""
    text = f"{status} {HTTPStatus(status).phrase}"
    answer = Whole(status=status, text=text)
    answer.force_close()
    return answer


def json_answer(
    request: web.Request, body: Mapping[str, Any], status: int = HTTPStatus.OK
) -> web.Response:
    """Return an object as JSON; as upstream, browsers and curl get it indented."""
    agent = request.headers.get("User-Agent", "")
    text = (
        json.dumps(body, indent=2)
        if agent.startswith(_INTERACTIVE_CLIENTS)
        else json.dumps(body, separators=(",", ":")) + "\n"
    )
    return web.Response(
        status=status, body=text.encode(), content_type="application/json"
    )


def status_answer(request: web.Request, code: HTTPStatus, message: str) -> web.Response:
    """Return a Status object that says why a request failed."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": code.phrase.replace(" ", ""),
        **({"details": {}} if code is HTTPStatus.FORBIDDEN else {}),
        "code": code.value,
    }
    return json_answer(request, body, code.value)


Pieces = Generator[bytes, None, None]
"""A page, piece by piece."""

AskedPieces = AsyncGenerator[bytes, None]
"""A page, piece by piece, each of which may have to be asked for."""


async def in_main(main: MainLoop, pieces: Pieces) -> AskedPieces:
    """Produce a page in the main loop, because it shows what that loop changes.

    Raises MainLoopBusy if that loop produces no piece in time.
    """
    try:
        while True:
            piece = await main.ask(lambda: next(pieces, None), ANSWER_PATIENCE)
            if piece is None:
                return
            yield piece
    finally:
        with suppress(MainLoopBusy):  # then nothing holds the page, and it closes
            await main.ask(pieces.close, ANSWER_PATIENCE)


async def in_turns(page: Generator[None, None, bytes]) -> bytes:
    """Produce a page that is sent as a whole; other tasks get a turn at each yield.

    A scrape must not be cut off in the middle, so it is not streamed.
    """
    while True:
        try:
            next(page)
        except StopIteration as stop:
            body: bytes = stop.value
            return body
        await asyncio.sleep(0)


async def stream(
    request: web.Request, media_type: str, pieces: AskedPieces
) -> web.StreamResponse:
    """Send a page piece by piece; other tasks get a turn after each piece.

    The next piece is produced when the client has read most of the previous ones, so
    a slow client keeps only a few pieces in memory. If a piece cannot be produced, the
    connection is aborted, so that the client does not believe that it has the complete
    page.
    """
    response = web.StreamResponse(headers=COMMON_HEADERS)
    response.content_type = media_type
    await response.prepare(request)
    try:
        async with aclosing(pieces):
            if request.method != hdrs.METH_HEAD:
                await _write(response, pieces)
    except ConnectionError:
        return response  # the client has gone
    except Exception:
        if request.transport is not None:
            request.transport.abort()
        raise
    await response.write_eof()
    return response


async def _write(response: web.StreamResponse, pieces: AskedPieces) -> None:
    async for piece in pieces:
        if piece:
            await response.write(piece)
        await asyncio.sleep(0)
