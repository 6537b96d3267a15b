"""An API server in memory that clients reach through faults."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from controller_manager.client.rest.errors import NotSent, TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.controlplane import APIServer
from controller_manager.devcluster.http_server import ConnectionCutError
from controller_manager.devcluster.inmemory import StreamingResponse

from .faults import FaultControl, forget_history
from .requests import Ending, Fault, FaultLayer, RequestFilter


class FaultyServer(FaultControl):
    """Passes requests on to an API server, as its faults let it."""

    def __init__(self, server: APIServer) -> None:
        """Take the server, which others reach without faults."""
        self._server = server
        self._layer = FaultLayer()
        self._is_down = False
        self.is_left = False
        """True while no request may arrive: the process that sends them has ended."""

    async def handle(self, request: Request) -> Response | StreamingResponse:
        """Answer a request; raises TransportError where a connection would fail."""
        if self._is_down or self.is_left:
            raise NotSent("connection refused by a fault of the test")
        try:
            answer = await self._layer(request, self._server.handle)
        except ConnectionCutError:
            raise TransportError("connection cut by a fault of the test") from None
        if isinstance(answer, Response):
            return answer
        pieces = _cuttable(answer)
        return StreamingResponse(pieces, answer.headers, answer.status, answer.close)

    @property
    def version(self) -> int:
        """The latest resourceVersion."""
        return self._server.storage.version

    def add(self, fault: Fault) -> Fault:
        """Apply a fault to requests from now on, and return it."""
        self._layer.add(fault)
        return fault

    def clear(self) -> None:
        """Remove all faults, and listen if the server does not."""
        self._layer.clear()
        self.listen_again()

    def end_watches(self, which: RequestFilter, ending: Ending) -> int:
        """End the open watches that are selected; return their number."""
        if ending is Ending.EXPIRED:
            forget_history(self._server, which)
        return self._layer.end_watches(which, ending, self.version)

    def stop_listening(self) -> None:
        """Cut all connections and refuse new ones."""
        self._is_down = True
        self.end_watches(RequestFilter(), Ending.CUT)

    def listen_again(self, after: float = 0.0) -> None:
        """Accept connections again with an empty history, at once or later."""
        if after:
            asyncio.get_running_loop().call_later(after, self.listen_again)
        elif self._is_down:
            forget_history(self._server, RequestFilter())
            self._is_down = False

    async def sleep(self, seconds: float) -> None:
        """Wait some seconds of the clock."""
        await asyncio.sleep(seconds)


async def _cuttable(answer: StreamingResponse) -> AsyncGenerator[bytes, None]:
    """Yield the pieces; raises TransportError where the connection is cut."""
    try:
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk
    except ConnectionCutError:
        raise TransportError("connection cut by a fault of the test") from None
