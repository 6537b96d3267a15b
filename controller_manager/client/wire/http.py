"""The HTTP transport: one server, one identity, many small requests.

Their bytes go over connections of our own: see `client.wire`.
"""

import asyncio
from http import HTTPStatus
from urllib.parse import urlsplit

from controller_manager.client.identity.credentials import Credentials, Identity
from controller_manager.client.identity.kubeconfig import ConfigError
from controller_manager.client.rest.errors import NotSent
from controller_manager.client.rest.transport import Request, Response, Stream

from .dialing import Dialer, ObserveLookUp, ignore_look_up
from .file_reserve import FileReserve
from .requests import Wire, no_answer
from .tunnel import proxy_at


class HTTPTransport:
    """Sends requests to the server that `credentials` name.

    A request is sent once: if its connection breaks, the caller decides whether it is
    sent again. After a 401 the credentials read their files and run their plugins
    again; if they have changed, the request is sent once more.
    """

    def __init__(
        self,
        credentials: Credentials,
        user_agent: str,
        reserve: FileReserve | None = None,
        observe_look_up: ObserveLookUp = ignore_look_up,
    ) -> None:
        """Call this in a running event loop.

        With a `reserve`, the transport can connect when the process has no free file
        descriptor. The transport owns the reserve and closes it. `observe_look_up` is
        called after each look-up of a name.
        """
        self._credentials = credentials
        self._reserve = reserve or FileReserve(0)
        self._host = urlsplit(credentials.server).netloc
        self._loop = asyncio.get_running_loop()
        proxy = proxy_at(credentials.proxy) if credentials.proxy else None
        server, tls_name = credentials.server, credentials.tls_server_name
        dialer = Dialer(server, tls_name, proxy, self._reserve, observe_look_up)
        self._wire = Wire(server, user_agent, dialer)

    @property
    def host(self) -> str:
        """``host:port`` of the server."""
        return self._host

    async def request(self, request: Request) -> Response:
        """Send and read the whole answer within the request's timeout.

        One deadline covers everything: plugins, the second try, the answer. A request
        without an answer leaves the idle connections behind.
        """
        self._reserve.refill()
        deadline = self._loop.time() + request.timeout
        identity = await self._identity(request, deadline)
        answer = await self._wire.request(request, identity, deadline)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            renewed = await self._renewed(request, identity, deadline)
            if renewed is not None:
                return await self._wire.request(request, renewed, deadline)
        return answer

    async def stream(self, request: Request) -> Stream:
        """Send; return as soon as the status and the headers have arrived.

        A stream without them leaves the idle connections behind; one that falls silent
        later closes its own connection only.
        """
        deadline = self._loop.time() + request.timeout
        identity = await self._identity(request, deadline)
        answer = await self._wire.stream(request, identity, deadline)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            try:
                renewed = await self._renewed(request, identity, deadline)
            except BaseException:
                await answer.close()
                raise
            if renewed is not None:
                await answer.close()
                return await self._wire.stream(request, renewed, deadline)
        return answer

    async def _identity(self, request: Request, deadline: float) -> Identity:
        """Return the identity to present; raises NotSent if there is none now."""
        if not self._credentials.may_wait:
            return await self._present()
        try:
            async with asyncio.timeout_at(deadline):
                return await self._present()
        except TimeoutError as error:
            raise no_answer(self._named(request), request) from error

    async def _present(self) -> Identity:
        try:
            return await self._credentials.identity()
        except ConfigError as error:
            # A plugin that fails now may work later, so the caller may retry.
            raise NotSent(str(error)) from error

    async def _renewed(
        self, request: Request, refused: Identity, deadline: float
    ) -> Identity | None:
        """Return another identity after a 401, `None` if there is no other."""
        if "authorization" in request.headers:
            return None
        try:
            async with asyncio.timeout_at(deadline):
                if not await self._credentials.refresh(refused):
                    return None
                return await self._present()
        except TimeoutError as error:
            raise no_answer(self._named(request), request) from error
        except ConfigError as error:
            raise NotSent(str(error)) from error

    def _named(self, request: Request) -> str:
        return f"{request.method} {request.path} at {self._host}"

    async def close(self) -> None:
        """Close all connections."""
        await self._credentials.close()
        await self._wire.close()
        self._reserve.close()
