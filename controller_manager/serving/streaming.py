"""Answers that are too long to be made at once."""

import asyncio
from collections.abc import Generator, Mapping
from contextlib import closing

from aiohttp import hdrs, web

Pieces = Generator[bytes, None, None]
"""A page, piece by piece."""


async def stream(
    request: web.Request,
    media_type: str,
    pieces: Pieces,
    headers: Mapping[str, str],
) -> web.StreamResponse:
    """Send a page piece by piece; others get their turn after each piece.

    The next piece is made when the client has taken most of those before, so
    a slow client holds no more than some of them. If making one fails, the
    connection is cut: the client must not take the page for complete.
    """
    response = web.StreamResponse(headers=headers)
    response.content_type = media_type
    await response.prepare(request)
    try:
        with closing(pieces):
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


async def _write(response: web.StreamResponse, pieces: Pieces) -> None:
    for piece in pieces:
        if piece:
            await response.write(piece)
        await asyncio.sleep(0)
