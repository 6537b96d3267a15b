"""Serves an API server over HTTPS."""

import ssl
from contextlib import aclosing
from typing import Final

from aiohttp import web

from controller_manager.client.inmemory import StreamingResponse
from controller_manager.client.transport import Request, Response
from controller_manager.devcluster.certificates import user_of
from controller_manager.devcluster.server.authentication import User
from controller_manager.devcluster.server.genericapiserver import GenericAPIServer
from controller_manager.serving.server import listen

_HOST: Final = "127.0.0.1"
_MAX_BODY = 16 * 1024 * 1024


class HTTPServer:
    """Listens on the loopback interface and passes requests to the server."""

    def __init__(
        self, server: GenericAPIServer, port: int, tls: ssl.SSLContext | None
    ) -> None:
        """Take the server, the port (0 for any), and the TLS settings, if any."""
        self._server = server
        self.host: Final = _HOST
        self.port = port
        self._tls = tls
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5
        )

    @property
    def url(self) -> str:
        """The URL of the server."""
        scheme = "https" if self._tls else "http"
        return f"{scheme}://{self.host}:{self.port}"

    async def start(self) -> None:
        """Listen; raises ServingError if the port cannot be used."""
        self.port = await listen(
            self._runner, self.host, self.port, "choose another --port", self._tls
        )
        self._server.address = f"{self.host}:{self.port}"

    async def close(self) -> None:
        """Stop listening and cut all streams."""
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        plain = Request(
            request.method,
            request.path,
            query=tuple(request.query.items()),
            headers={
                name.lower(): "\n".join(request.headers.getall(name))
                for name in request.headers
            },
            body=await request.read() if request.can_read_body else None,
        )
        certificate_user = _certificate_user(request)
        if certificate_user is None:
            answer = await self._server.handle(plain)
        else:
            answer = await self._server.handle_as(certificate_user, plain)
        if isinstance(answer, Response):
            return web.Response(
                status=answer.status, headers=dict(answer.headers), body=answer.body
            )
        return await self._stream(request, answer)

    async def _stream(
        self, request: web.Request, answer: StreamingResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            status=answer.status, headers=dict(answer.headers)
        )
        try:
            await response.prepare(request)
            async with aclosing(answer.chunks()) as chunks:
                async for chunk in chunks:
                    await response.write(chunk)
        except ConnectionError:
            return response  # the client has closed the connection
        finally:
            await answer.close()
        await response.write_eof()
        return response


def _certificate_user(request: web.Request) -> User | None:
    """Return the user of the client certificate, which TLS has verified."""
    connection = request.get_extra_info("ssl_object")
    encoded = connection.getpeercert(binary_form=True) if connection else None
    return user_of(encoded) if encoded else None
