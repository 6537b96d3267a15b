"""Requests as a service account, with tokens from the TokenRequest API.

Upstream: controller-manager clientbuilder (client_builder_dynamic.go), for
``--use-service-account-credentials``.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from controller_manager.api.authentication.v1 import TokenRequest, TokenRequestSpec
from controller_manager.api.core.v1 import (
    NAMESPACES,
    SERVICE_ACCOUNTS,
    Namespace,
    ServiceAccount,
)
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.scalars import parse_time
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.limits import SYNC_KEY
from controller_manager.client.rest.transport import (
    Request,
    Response,
    Stream,
    Transport,
)
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger

NAMESPACE: Final = "kube-system"
LIFETIME: Final = 3600
"""Lifetime in seconds that is requested; the API server may choose another."""

_RENEW_AT: Final = 0.8
"""The part of a token's lifetime after which it is renewed."""

_RETRY: Final = 10.0
"""Seconds after which a failed renewal is tried again."""


class ServiceAccountToken:
    """The current token of one service account.

    The token is requested when it is first needed; a missing account is created. It
    is renewed in the background after 80 % of its lifetime, and requested again after
    `discard`. While renewals fail, the old token is used until it expires. Only one
    token request is sent at a time, even if many callers wait.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        clock: Clock,
        logger: Logger,
        namespace: str = NAMESPACE,
    ) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace
        self._clock = clock
        self._logger = logger
        self._token = ""
        self._renew_at = self._expires_at = float("-inf")
        self._lock = asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None

    async def get(self) -> str:
        """Return a valid token.

        Raises APIError, TransportError or ProtocolError if the request fails.
        """
        now = self._clock.monotonic()
        if self._token and now < self._expires_at:
            if now >= self._renew_at:
                self._renew_in_background()
            return self._token
        async with self._lock:
            if not self._token or self._clock.monotonic() >= self._expires_at:
                await self._request()
            return self._token

    def discard(self, token: str) -> None:
        """Drop `token`, so that `get` requests a new one; ignore a replaced token."""
        if token == self._token:
            self._token = ""

    async def close(self) -> None:
        """Cancel a renewal that is in progress."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)

    def _renew_in_background(self) -> None:
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(
                self._renew(), name=f"token-{self._name}"
            )

    async def _renew(self) -> None:
        async with self._lock:
            try:
                await self._request()
            except errors.RequestError as error:
                self._renew_at = self._clock.monotonic() + _RETRY
                self._logger.warning(
                    "Token not renewed, the old one stays in use",
                    serviceAccount=f"{self._namespace}/{self._name}",
                    err=str(error),
                )

    async def _request(self) -> None:
        # The token serves all keys of a controller, not only the one under sync.
        of_key = SYNC_KEY.set("")
        try:
            await self._exchange_for_token()
        finally:
            SYNC_KEY.reset(of_key)

    async def _exchange_for_token(self) -> None:
        requested_at = self._clock.monotonic()
        requested_on = self._clock.now()
        try:
            answer = await self._token_request()
        except errors.NotFound:
            await self._create_account()
            answer = await self._token_request()
        if not answer.status.token:
            msg = f"the token request of {self._name} was answered without a token"
            raise errors.ProtocolError(msg)
        # The end is measured on the monotonic clock: the wall clocks may differ.
        lifetime = float(answer.spec.expiration_seconds or LIFETIME)
        if answer.status.expiration_timestamp:
            try:
                ends = parse_time(answer.status.expiration_timestamp)
                left = (ends - requested_on).total_seconds()
            except (ValueError, TypeError) as error:
                msg = f"the token of {self._name} has an unreadable expiry: {error}"
                raise errors.ProtocolError(msg) from error
            lifetime = left if 0 < left < lifetime else lifetime
        self._token = answer.status.token
        self._expires_at = requested_at + lifetime
        self._renew_at = requested_at + lifetime * _RENEW_AT

    async def _token_request(self) -> TokenRequest:
        return await self._client.create_subresource(
            SERVICE_ACCOUNTS,
            self._namespace,
            self._name,
            "token",
            TokenRequest(
                api_version="authentication.k8s.io/v1",
                kind="TokenRequest",
                spec=TokenRequestSpec(expiration_seconds=LIFETIME),
            ),
        )

    async def _create_account(self) -> None:
        account = ServiceAccount(
            metadata=ObjectMeta(name=self._name, namespace=self._namespace)
        )
        try:
            await self._create(account)
        except errors.NotFound:
            namespace = Namespace(metadata=ObjectMeta(name=self._namespace))
            try:
                await self._client.create(NAMESPACES, namespace)
            except errors.AlreadyExists:
                self._logger.v(4).info("Another client created the namespace")
            await self._create(account)

    async def _create(self, account: ServiceAccount) -> None:
        try:
            await self._client.create(SERVICE_ACCOUNTS, account)
        except errors.AlreadyExists:
            self._logger.v(4).info("Another client created the service account")
        else:
            self._logger.v(2).info(
                "Created service account",
                serviceAccount=f"{self._namespace}/{self._name}",
            )


class ServiceAccountTransport:
    """Sends requests as one service account, over an anonymous transport.

    After a 401 the token is discarded and the request is sent once more with a new
    token. If no token can be requested, `NotSent` is raised: the server has not
    received the request itself.
    """

    def __init__(self, anonymous: Transport, token: ServiceAccountToken) -> None:
        self._anonymous = anonymous
        self._token = token

    @property
    def host(self) -> str:
        """``host:port`` of the server."""
        return self._anonymous.host

    async def request(self, request: Request) -> Response:
        """Send; see `Transport.request`."""
        token = await self._current()
        answer = await self._anonymous.request(_with_token(request, token))
        if answer.status != HTTPStatus.UNAUTHORIZED:
            return answer
        self._token.discard(token)
        return await self._anonymous.request(
            _with_token(request, await self._current())
        )

    async def stream(self, request: Request) -> Stream:
        """Send; see `Transport.stream`."""
        token = await self._current()
        stream = await self._anonymous.stream(_with_token(request, token))
        if stream.status != HTTPStatus.UNAUTHORIZED:
            return stream
        await stream.close()
        self._token.discard(token)
        return await self._anonymous.stream(_with_token(request, await self._current()))

    async def close(self) -> None:
        """Stop renewals; the anonymous transport is shared and stays open."""
        await self._token.close()

    async def _current(self) -> str:
        try:
            return await self._token.get()
        except errors.RequestError as error:
            msg = f"no token for the service account: {error}"
            raise errors.NotSent(msg) from error


def _with_token(request: Request, token: str) -> Request:
    headers: Mapping[str, str] = {
        **request.headers,
        "authorization": f"Bearer {token}",
    }
    return replace(request, headers=headers)
