"""Access to the server: each request is authenticated, then authorized."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from http import HTTPStatus

from aiohttp import web

from .answers import status_answer
from .authentication import Authenticator, Refused
from .authorization import Authorizer, ReviewError
from .connection import Connection
from .reviews import TooManyReviews, User
from .tls import verified_chain

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Access:
    """Authenticates and authorizes requests before handlers answer them."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        # Each request is handled in its own task, which has its own context.
        self._user: ContextVar[User] = ContextVar("user")

    async def answer(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        """Return the answer of the handler, or the refusal of the request."""
        headers = {
            name.lower(): "\n".join(request.headers.getall(name))
            for name in request.headers
        }
        try:
            chain = verified_chain(request.get_extra_info("ssl_object"))
            user = await self._authenticator.authenticate(headers, chain)
            refusal = await self._refusal(user, request.method.lower(), request.path)
        except Refused:
            return status_answer(request, HTTPStatus.UNAUTHORIZED, "Unauthorized")
        except TooManyReviews as error:
            answer = status_answer(request, HTTPStatus.TOO_MANY_REQUESTS, str(error))
            answer.headers["Retry-After"] = "1"
            return answer
        except ReviewError as error:
            text = f'Internal Server Error: "{request.path}": {error}\n'
            return web.Response(status=500, text=text)
        if refusal is not None:
            return status_answer(request, HTTPStatus.FORBIDDEN, refusal)
        if isinstance(request.protocol, Connection):
            request.protocol.admit()
        self._user.set(user)
        return await handler(request)

    async def _refusal(self, user: User, verb: str, path: str) -> str | None:
        decision = await self._authorizer.decide(user, verb, path)
        if decision.allowed:
            return None
        message = f'forbidden: User "{user.name}" cannot {verb} path "{path}"'
        return f"{message}: {decision.reason}" if decision.reason else message

    async def may_get(self, path: str) -> bool:
        """Tell whether the user of the request that is handled may get a path.

        Raises ReviewError or TooManyReviews if the API server has not decided.
        """
        decision = await self._authorizer.decide(self._user.get(), "get", path)
        return decision.allowed
