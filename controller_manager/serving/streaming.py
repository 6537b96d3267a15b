"""Answers that are sent piece by piece, because they are too long for one turn."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, suppress

from aiohttp import hdrs, web

from .main_loop import ANSWER_PATIENCE, MainLoop, MainLoopBusy

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
    request: web.Request,
    media_type: str,
    pieces: AskedPieces,
    headers: Mapping[str, str],
) -> web.StreamResponse:
    """Send a page piece by piece; other tasks get a turn after each piece.

    The next piece is produced when the client has read most of the previous ones, so
    a slow client keeps only a few pieces in memory. If a piece cannot be produced, the
    connection is aborted, so that the client does not believe that it has the complete
    page.
    """
    response = web.StreamResponse(headers=headers)
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
