"""The head and the body of an answer, cut from the bytes of a connection (RFC 9112).

Malformed bytes raise `MalformedAnswer`. They are never guessed at: the end of an answer
that is taken for another one would give its rest to the next request.
"""

import re
from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Struct

LONGEST_HEAD: Final = 65536
"""The most bytes of a head, or of one line of a chunked body."""

_HEX: Final = frozenset(b"0123456789abcdefABCDEF")
_MOST_DIGITS: Final = 15
"""The most digits in the size of a chunk, or of a body."""

_FIRST_LINE: Final = re.compile(r"(HTTP/1\.[01]) ([1-5]\d\d)(?: (.*))?")
_SWITCHING_PROTOCOLS: Final = 101
_FIRST_FINAL: Final = 200
"""The least status of a final head; those below announce one."""

_NO_CONTENT: Final = (204, 304)
_END: Final = b"\r\n"


class MalformedAnswer(Exception):
    """The bytes of a connection are no HTTP/1.1 answer."""


class Head(Struct, frozen=True):
    """The first lines of an answer; the names of headers are lower case."""

    status: int
    headers: Mapping[str, str]
    keeps_alive: bool
    """True if the server accepts another request on the connection."""
    reason: str = ""
    """The words after the status, whatever a peer writes there."""

    @property
    def is_interim(self) -> bool:
        """True if the final head follows (1xx)."""
        return self.status < _FIRST_FINAL


def parse_head(data: bytes) -> Head:
    """Return the head whose lines are `data`, without the empty line at its end."""
    first, *lines = data.decode("latin-1").split("\r\n")
    line = _FIRST_LINE.fullmatch(first)
    if line is None:
        msg = f"not the first line of an answer: {first[:80]!r}"
        raise MalformedAnswer(msg)
    headers: dict[str, str] = {}
    for each in lines:
        key, value = _header(each)
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    version, status = line[1], int(line[2])
    if status == _SWITCHING_PROTOCOLS:
        msg = f"an answer with the status {status}"
        raise MalformedAnswer(msg)
    connection = headers.get("connection", "").lower()
    keeps_alive = version == "HTTP/1.1" and "close" not in connection
    return Head(status, headers, keeps_alive, line[3] or "")


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name or name[-1] in " \t" or name[0] in " \t":
        msg = f"not a header: {line[:80]!r}"
        raise MalformedAnswer(msg)
    return name.lower(), value.strip(" \t")


class Body(Protocol):
    """Takes the bytes of a body, and knows where it ends."""

    is_whole: bool
    """True after the last byte."""

    def feed(self, data: bytes) -> bytes:
        """Return the content in `data`, the next bytes of the connection.

        Raises MalformedAnswer for bytes after the end, too: no request awaits them.
        """

    def end(self) -> bool:
        """Tell whether the body is whole if the connection ends here."""


def body_of(head: Head, *, answers_head: bool) -> Body:
    """Return the body of an answer; one to a HEAD has none."""
    encoding = head.headers.get("transfer-encoding", "")
    if answers_head or head.status in _NO_CONTENT:
        return SizedBody(0)
    if encoding:
        if encoding.lower() != "chunked":
            msg = f"unknown transfer encoding {encoding[:40]!r}"
            raise MalformedAnswer(msg)
        return ChunkedBody()
    length = head.headers.get("content-length")
    if length is None:
        return UnsizedBody()
    if _is_size(length):
        return SizedBody(int(length))
    # Several equal lengths were joined; different ones are an attack, or a fault.
    lengths = {each.strip() for each in length.split(",")}
    size = lengths.pop()
    if lengths or not _is_size(size):
        msg = f"content length {length[:40]!r}"
        raise MalformedAnswer(msg)
    return SizedBody(int(size))


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


class SizedBody:
    """A body of a number of bytes that the head tells."""

    __slots__ = ("_left", "is_whole")

    def __init__(self, size: int) -> None:
        self._left = size
        self.is_whole = size == 0

    def feed(self, data: bytes) -> bytes:
        """Return the bytes as they are."""
        self._left -= len(data)
        if self._left < 0:
            raise _surplus()
        self.is_whole = self._left == 0
        return data

    def end(self) -> bool:
        """Tell whether all bytes have arrived."""
        return self.is_whole


class UnsizedBody:
    """A body that ends with the connection."""

    __slots__ = ("is_whole",)

    def __init__(self) -> None:
        self.is_whole = False

    def feed(self, data: bytes) -> bytes:
        """Return the bytes as they are."""
        return data

    def end(self) -> bool:
        """End the body."""
        self.is_whole = True
        return True


class ChunkedBody:
    """A body in chunks, each of which begins with its size."""

    __slots__ = ("_in_trailer", "_left", "_rest", "is_whole")

    def __init__(self) -> None:
        self._left = 0
        """The bytes that are left of the present chunk, with the end of its line."""
        self._rest = b""
        self._in_trailer = False
        self.is_whole = False

    def feed(self, data: bytes) -> bytes:
        """Return the content of the chunks in the data."""
        data = self._rest + data if self._rest else data
        self._rest = b""
        parts: list[bytes] = []
        position, size = 0, len(data)
        while position < size:
            if self.is_whole:
                raise _surplus()
            if self._left:
                position = self._content(data, position, parts)
                continue
            end = data.find(_END, position)
            if end < 0:
                if size - position > LONGEST_HEAD:
                    msg = "a chunk without a size"
                    raise MalformedAnswer(msg)
                self._rest = data[position:]
                break
            self._line(data[position:end])
            position = end + len(_END)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _content(self, data: bytes, position: int, parts: list[bytes]) -> int:
        """Return the position after the present chunk."""
        end = min(position + self._left, len(data))
        self._left -= end - position
        # The last two of the bytes that are left end the line.
        visible = end - max(0, len(_END) - self._left)
        if visible > position:
            parts.append(data[position:visible])
        ending = data[max(visible, position) : end]
        if ending and ending != _END[2 - self._left - len(ending) : 2 - self._left]:
            msg = "a chunk that is longer than its size"
            raise MalformedAnswer(msg)
        return end

    def _line(self, line: bytes) -> None:
        if self._in_trailer:
            self.is_whole = not line
            return
        digits = line.partition(b";")[0].strip()
        if not digits or len(digits) > _MOST_DIGITS or not _HEX.issuperset(digits):
            msg = f"not the size of a chunk: {line[:40]!r}"
            raise MalformedAnswer(msg)
        length = int(digits, 16)
        if length:
            self._left = length + len(_END)
        else:
            self._in_trailer = True

    def end(self) -> bool:
        """Tell whether the last chunk has arrived."""
        return self.is_whole


def _surplus() -> MalformedAnswer:
    return MalformedAnswer("bytes after the end of the answer")
