"""Access: each request is authenticated, then authorized.

A group, a path, or a review of the API server authorizes it.
Upstream: apiserver pkg/server/options/authorization.go (delegating).
"""

import ssl
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web

from controller_manager.api.authorization.v1 import (
    SUBJECT_ACCESS_REVIEWS,
    NonResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import (
    APIError,
    ProtocolError,
    TransportError,
)
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger
from controller_manager.options.config import AuthorizationConfig

from . import reviews
from .answers import status_answer
from .authentication import Authenticator, Refused
from .connection import Connection


class ReviewError(Exception):
    """The API server did not answer the review (500)."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a request: allowed or not, and the reason."""

    allowed: bool
    reason: str = ""


class Authorizer:
    """Decides whether requests are allowed, and caches reviews of the API server."""

    def __init__(
        self,
        config: AuthorizationConfig,
        client: Client | None,
        *,
        clock: Clock,
        logger: Logger,
    ) -> None:
        self._config = config
        self._client = client
        self._cache: reviews.ExpiringCache[tuple[reviews.User, str, str], Decision] = (
            reviews.ExpiringCache(clock)
        )
        if client is None:
            logger.warning(
                "No --authorization-kubeconfig: users outside of system:masters may "
                "read only the paths of --authorization-always-allow-paths"
            )

    async def decide(self, user: reviews.User, verb: str, path: str) -> Decision:
        """Decide whether `user` may send a request with `verb` (lower case) to `path`.

        Raises ReviewError if the API server does not answer the review.
        """
        if reviews.MASTERS in user.groups or self._is_open(path):
            return Decision(allowed=True)
        if self._client is None:
            return Decision(allowed=False)
        key = (user, verb, path)
        known = self._cache.get(key)
        if known is not None:
            return known
        decision = await self._reviewed(self._client, user, verb, path)
        ttl = (
            self._config.authorized_ttl
            if decision.allowed
            else self._config.unauthorized_ttl
        )
        self._cache.put(key, decision, ttl)
        return decision

    def _is_open(self, path: str) -> bool:
        bare = path.lstrip("/")
        for pattern in self._config.always_allow_paths:
            wanted = pattern.lstrip("/")
            if bare == wanted or (
                wanted.endswith("*") and bare.startswith(wanted[:-1])
            ):
                return True
        return False

    async def _reviewed(
        self, client: Client, user: reviews.User, verb: str, path: str
    ) -> Decision:
        review = SubjectAccessReview(
            spec=SubjectAccessReviewSpec(
                non_resource_attributes=NonResourceAttributes(path=path, verb=verb),
                user=user.name,
                uid=user.uid,
                groups=user.groups,
                extra=dict(user.extra) or None,
            )
        )
        try:
            answer = await reviews.reviewed(
                lambda: client.create(SUBJECT_ACCESS_REVIEWS, review)
            )
        except (APIError, TransportError, ProtocolError, TimeoutError) as error:
            why = str(error) or f"no answer within {reviews.REVIEW_TIMEOUT:g} s"
            raise ReviewError(why) from error
        allowed = answer.status.allowed and not answer.status.denied
        return Decision(allowed, answer.status.reason)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Access:
    """Authenticates and authorizes requests before handlers answer them."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        # Each request is handled in its own task, which has its own context.
        self._user: ContextVar[reviews.User] = ContextVar("user")

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
        except reviews.TooManyReviews as error:
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

    async def _refusal(self, user: reviews.User, verb: str, path: str) -> str | None:
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


def verified_chain(connection: ssl.SSLObject | None) -> list[bytes]:
    """Return the chain of the client's certificate as DER, up to its authority.

    It is empty for a client without a certificate, and for one that has disconnected.
    """
    if connection is None:
        return []
    # Python before 3.13 has the function only in the object that it wraps.
    inner: Any = connection
    if not hasattr(inner, "get_verified_chain"):
        inner = inner._sslobj  # noqa: SLF001
    found = inner.get_verified_chain() or []
    return [each if isinstance(each, bytes) else _der(each) for each in found]


def _der(certificate: Any) -> bytes:  # noqa: ANN401 - it has no public type
    return ssl.PEM_cert_to_DER_cert(certificate.public_bytes())
