"""Find the controller that sends a request."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

from controller_manager.client.builder import ClientBuilder
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.transport import (
    Request,
    Response,
    Stream,
    Transport,
)

WRITER: Final[ContextVar[str]] = ContextVar("writer", default="")
"""The name of the controller that sends a request; empty for the manager itself."""


@dataclass
class _MarkedTransport:
    """Passes requests on, and marks them with the name of a controller."""

    inner: Transport
    name: str

    @property
    def host(self) -> str:
        return self.inner.host

    async def request(self, request: Request) -> Response:
        token = WRITER.set(self.name)
        try:
            return await self.inner.request(request)
        finally:
            WRITER.reset(token)

    async def stream(self, request: Request) -> Stream:
        return await self.inner.stream(request)

    async def close(self) -> None:
        await self.inner.close()


@contextmanager
def track_writers() -> Iterator[None]:
    """Let each client mark its requests with its controller's name, while entered."""
    make = ClientBuilder.controller

    def signed(builder: ClientBuilder, name: str, *rest: Any, **more: Any) -> Client:
        client = make(builder, name, *rest, **more)
        sender = client._rest
        sender._transport = _MarkedTransport(sender._transport, name)
        return client

    with mock.patch.object(ClientBuilder, "controller", signed):
        yield
