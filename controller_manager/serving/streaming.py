"""Answers that are too long to be made at once."""

import asyncio
from collections.abc import Iterable, Mapping

from aiohttp import hdrs, web


async def stream(
    request: web.Request,
    media_type: str,
    pieces: Iterable[bytes],
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
    if request.method == hdrs.METH_HEAD:
        return response
    try:
        for piece in pieces:
            if piece:
                await response.write(piece)
            await asyncio.sleep(0)
    except ConnectionError:
        return response  # the client has gone
    except Exception:
        if request.transport is not None:
            request.transport.abort()
        raise
    await response.write_eof()
    return response
