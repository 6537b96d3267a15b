"""Answers that turn a connection over to another protocol: SPDY or websockets."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from controller_manager.client.rest.transport import Request
from controller_manager.devcluster.scheme.statuses import bad_request

from .negotiation import header

SPDY: Final = "SPDY/3.1"
WEBSOCKET: Final = "websocket"


class Connection(Protocol):
    """A connection to a client after its upgrade."""

    async def receive(self) -> bytes:
        """Return the next bytes, or message of a websocket; empty at the end."""
        ...

    async def send(self, data: bytes) -> None:
        """Send bytes, as one message of a websocket.

        Raises ConnectionError if the client is gone.
        """
        ...


Serve = Callable[[Connection], Awaitable[None]]
"""Speaks a protocol until one side ends the connection."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """An answer after which `serve` has the connection.

    `protocol` is SPDY or that of websockets. In memory, it is an answer without a body.
    """

    protocol: str
    subprotocol: str
    serve: Serve
    status: int = 101
    headers: Mapping[str, str] = field(default_factory=dict)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield nothing."""
        nothing: tuple[bytes, ...] = ()
        for chunk in nothing:
            yield chunk

    async def close(self) -> None:
        """Do nothing: the server closes the connection."""


def negotiated(
    request: Request, spdy: Iterable[str], websocket: Iterable[str]
) -> tuple[str, str]:
    """Return the protocol of an upgrade, and the client's first known subprotocol.

    `spdy` and `websocket` are the subprotocols that the server knows. Raises Refusal.
    """
    wanted = header(request.headers, "upgrade").lower()
    for protocol, known, name in (
        (SPDY, spdy, "x-stream-protocol-version"),
        (WEBSOCKET, websocket, "sec-websocket-protocol"),
    ):
        if wanted != protocol.lower():
            continue
        given = header(request.headers, name).replace("\n", ",").split(",")
        for each in map(str.strip, given):
            if each in {*known}:
                return protocol, each
        shown = ", ".join(known)
        raise bad_request(f"unable to upgrade: {name} must be one of: {shown}")
    raise bad_request("Upgrade request required")
