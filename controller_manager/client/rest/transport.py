"""The transport protocol: the only interface to an API server.

A transport takes a request and returns an answer, whole or as a stream. In
production it is HTTP (`client.wire.http`); in tests it is a function
call. All other packages use only this protocol.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

READS: Final = frozenset(("GET", "HEAD"))
"""The methods of requests that change nothing."""

LARGEST_ANSWER: Final = 64 << 20
"""The most bytes of an answer, decompressed, if its request names no other number.

An object has 1.5 MiB at most, and ten times as much if etcd's limit is raised. The
documents of discovery and OpenAPI have a few MiB.
"""

LARGEST_LIST: Final = 2 << 30
"""The most bytes of an answer with many objects.

150,000 pods, the most that Kubernetes supports, may have 14 kB each; usual ones have
less than ten. A longer list would take all memory of a node, too.
"""

Query = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    `timeout` is in seconds. For a plain request it limits the whole exchange. For a
    stream it limits the wait for the headers, and each wait for the next data.

    An answer of more than `largest_answer` bytes is an error; a stream has no limit.

    A transport calls `before_write` at the moment at which it writes the request, after
    all that it has waited for. If that raises NotSent, nothing is written.
    """

    method: str
    path: str
    query: Query = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float = 30.0
    largest_answer: int = LARGEST_ANSWER
    before_write: Callable[[], object] | None = field(
        default=None, compare=False, repr=False
    )


@dataclass(frozen=True, slots=True)
class Response:
    """A complete answer; the names of headers are lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Stream(Protocol):
    """An answer whose body is read piece by piece."""

    @property
    def status(self) -> int:
        """The HTTP status code."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case name."""

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield pieces of the body as they arrive.

        Raises RequestTimeout if no data arrives within the request's timeout,
        TransportError when the connection breaks.
        """

    async def close(self) -> None:
        """Close the stream and its connection."""


class Transport(Protocol):
    """Sends requests to one API server."""

    @property
    def host(self) -> str:
        """``host:port`` of the server, for metrics and messages."""

    async def request(self, request: Request) -> Response:
        """Send the request; return the answer, with any status.

        Raises TransportError if there is no answer: the server may have carried out
        the request or not. Raises NotSent if it certainly has not.
        """

    async def stream(self, request: Request) -> Stream:
        """Send the request; return once the status and the headers have arrived."""

    async def close(self) -> None:
        """Close all connections."""
