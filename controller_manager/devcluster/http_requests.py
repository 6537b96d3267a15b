"""Plain requests of HTTP/1.1, as most clients send them: read in one step.

A request is plain if all its bytes are here and nothing about it is unusual. The reader
takes less than it may: `http_server` leaves all other bytes to aiohttp, which knows the
rest of the protocol, its limits and its errors.
"""

import re
from typing import Final

from yarl import URL

from controller_manager.client.transport import Request

_HEAD: Final = re.compile(
    rb"(GET|POST|PUT|PATCH|DELETE) "
    rb"(/[A-Za-z0-9/._~!$&'()*+,;=:@%-]*+)(?:\?([A-Za-z0-9/._~!$&'()*+,;=:@%?-]*+))?+ "
    rb"HTTP/1\.1\r\n"
    rb"((?:[A-Za-z0-9!#$%&'*+.^_`|~-]++:[\t -~]*+\r\n)*+)\r\n"
)
"""The request line and the headers: each part ends where the next one begins.

So the time to match grows with the length alone.
"""

_UNUSUAL: Final = frozenset(("transfer-encoding", "expect", "upgrade"))
"""Headers that change how a request is read or answered."""

_MOST_DIGITS: Final = 6
"""A plain request has less than a megabyte in its body, so it is never too large."""


class RequestReader:
    """Reads the plain requests of one connection.

    The headers of one client are the same in many requests, so the last ones are kept.
    """

    __slots__ = ("_block", "_headers", "_length")

    def __init__(self) -> None:
        """Begin without headers."""
        self._block: bytes | None = None
        self._headers: dict[str, str] = {}
        self._length = 0

    def read(self, data: bytes) -> tuple[Request, bytes] | None:
        """Return the first request in `data`, and the bytes after it.

        The answer is `None` if the request is not plain, or not complete.
        """
        match = _HEAD.match(data)
        if match is None:
            return None
        method, path, query, block = match.groups()
        if block != self._block and not self._take(block):
            return None
        begin = match.end()
        end = begin + self._length
        if end > len(data):
            return None
        body = data[begin:end] if self._length else None
        plain = _request(method.decode(), path, query, self._headers, body)
        return plain, data[end:]

    def _take(self, block: bytes) -> bool:
        """Keep the headers of a request; tell whether they are usual."""
        self._block = None
        headers: dict[str, str] = {}
        for line in block.decode("ascii").split("\r\n")[:-1]:
            name, _, value = line.partition(":")
            key, value = name.lower(), value.strip(" \t")
            # Headers of one name are joined by lines.
            headers[key] = f"{headers[key]}\n{value}" if key in headers else value
        length = headers.get("content-length", "0")
        if (
            not (length.isdigit() and len(length) <= _MOST_DIGITS)
            or headers.get("connection", "keep-alive").lower() != "keep-alive"
            or not _UNUSUAL.isdisjoint(headers)
        ):
            return False
        self._block, self._headers, self._length = block, headers, int(length)
        return True


def _request(
    method: str,
    path: bytes,
    query: bytes | None,
    headers: dict[str, str],
    body: bytes | None,
) -> Request:
    """Return a request; its path and its query are decoded as aiohttp does."""
    if query is None and b"%" not in path:
        return Request(method, path.decode(), headers=headers, body=body)
    url = URL.build(
        path=path.decode(), query_string=(query or b"").decode(), encoded=True
    )
    pairs = tuple(url.query.items()) if query else ()
    return Request(method, url.path, query=pairs, headers=headers, body=body)
