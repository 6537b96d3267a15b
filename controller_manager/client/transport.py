"""The one seam between this program and an API server.

A transport takes a request and returns an answer, whole or as a stream. In
production it is HTTP (`client.http`); in tests and simulations a function
call (`client.inmemory`). Everything above speaks this protocol only.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

Query = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    `timeout` bounds, in seconds, the whole exchange of a plain request, and
    for a stream both the wait for its head and every silence in it.
    """

    method: str
    path: str
    query: Query = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float = 30.0


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer. Names of headers are lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Stream(Protocol):
    """An answer of which the body is still coming."""

    @property
    def status(self) -> int:
        """The HTTP status code."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name."""

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield pieces of the body as they come.

        Raises RequestTimeout after too long a silence, TransportError when the
        connection breaks.
        """

    async def close(self) -> None:
        """Give up the stream and its connection."""


class Transport(Protocol):
    """A way to an API server."""

    @property
    def host(self) -> str:
        """``host:port`` of the server, for metrics and messages."""

    async def request(self, request: Request) -> Response:
        """Send and return the answer, of whatever status.

        Raises TransportError when there is none: the request may or may not
        have been carried out. Raises NotSent if it certainly was not.
        """

    async def stream(self, request: Request) -> Stream:
        """Send and return the answer once its head has come."""

    async def close(self) -> None:
        """Release connections."""
