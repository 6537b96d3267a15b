"""The content of compressed bodies, never more of it at once than a caller asks for.

A few bytes of gzip may hold a thousand times as many. Therefore nothing here
decompresses a body without a limit.
"""

import asyncio
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from .answers import MalformedAnswer

_LARGE: Final = 1 << 16
"""The bytes of a compressed body from which it is decompressed in another thread."""

_PIECE: Final = 1 << 20
"""The most bytes of content that a stream holds at a time."""


class GzipContent:
    """The content of a body of one member of gzip, which arrives in parts."""

    __slots__ = ("_inner", "_is_begun")

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._is_begun = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the content of the next bytes; raises MalformedAnswer."""
        self._is_begun = True
        while True:
            piece = self._decompress(data, _PIECE)
            if piece:
                yield piece
            if len(piece) < _PIECE:
                return
            data = self._inner.unconsumed_tail

    def whole(self, body: bytes, most: int) -> bytes:
        """Return the content of a whole body, which may have `most` bytes."""
        if not body:
            return body
        self._is_begun = True
        content = self._decompress(body, most + 1)
        if len(content) > most:
            raise too_large(most)
        self.end()
        return content

    def end(self) -> None:
        """End the body; raises MalformedAnswer if its content is cut short."""
        if self._is_begun and not self._inner.eof:
            msg = "the compressed body ended before its content did"
            raise MalformedAnswer(msg)

    def _decompress(self, data: bytes, most: int) -> bytes:
        try:
            content = self._inner.decompress(data, most)
        except zlib.error as error:
            msg = f"the body is no gzip: {error}"
            raise MalformedAnswer(msg) from error
        if self._inner.unused_data:
            msg = "bytes after the end of the compressed body"
            raise MalformedAnswer(msg)
        return content


def gzip_content(headers: Mapping[str, str]) -> GzipContent | None:
    """Return the content of a body with these headers, `None` if it is not compressed.

    Raises MalformedAnswer for a compression that no request asks for.
    """
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding == "identity":
        return None
    if encoding != "gzip":
        msg = f"unknown content encoding {encoding[:40]!r}"
        raise MalformedAnswer(msg)
    return GzipContent()


async def decompressed(headers: Mapping[str, str], body: bytes, most: int) -> bytes:
    """Return the content of a whole body, which may have `most` bytes.

    A large body does not hold up the event loop. Raises MalformedAnswer.
    """
    content = gzip_content(headers)
    if content is None:
        return body
    if len(body) < _LARGE:
        return content.whole(body, most)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, content.whole, body, most)


def too_large(most: int) -> MalformedAnswer:
    """Return the error for an answer that its request did not expect."""
    return MalformedAnswer(f"the answer has more than {most} bytes")
