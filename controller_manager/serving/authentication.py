"""Authentication: front proxy headers, client certificates, tokens, or anonymous.

Upstream: apiserver pkg/server/options/authentication.go (delegating) and
pkg/authentication. A request whose identity is not accepted is refused; only a
request without an identity is anonymous.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from cryptography import x509
from cryptography.x509.oid import NameOID

from controller_manager.api.authentication.v1 import (
    TOKEN_REVIEWS,
    TokenReview,
    TokenReviewSpec,
)
from controller_manager.api.core.v1 import CONFIG_MAPS
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import (
    APIError,
    Forbidden,
    NotFound,
    ProtocolError,
    TransportError,
)
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger
from controller_manager.options.config import AuthenticationConfig

from .authorities import Authorities
from .certificates import ServingError
from .reviews import (
    ANONYMOUS,
    AUTHENTICATED,
    REVIEW_TIMEOUT,
    ExpiringCache,
    TooManyReviews,
    User,
    reviewed,
)

_NAMESPACE: Final = "kube-system"
_CONFIG_MAP: Final = "extension-apiserver-authentication"
_LOOKUP_INTERVAL: Final = 60.0
_LOOKUP_RETRY: Final = 5.0
_REJECTED: Final = User("")
"""Stands in the cache for a token that the API server does not accept."""


class Refused(Exception):
    """The identity of the request is not accepted (401)."""


class Authenticator:
    """Determines the user of each request; the API server reviews tokens."""

    def __init__(
        self,
        config: AuthenticationConfig,
        client: Client | None,
        *,
        lookup: Client | None = None,
        clock: Clock,
        logger: Logger,
    ) -> None:
        """Take a client that may create tokenreviews, `None` if there is none.

        `lookup` reads the cluster's settings from the same API server. It must not
        share a rate limit with reviews, because any client can cause reviews. Raises
        ServingError if a file cannot be used.
        """
        self._config = config
        self._client = client
        self._lookup = lookup or client
        self._clock = clock
        self._logger = logger
        self._tokens: ExpiringCache[str, User] = ExpiringCache(clock)
        self.authorities = Authorities(config, logger)
        if client is None:
            self._warn_of_missing_client()

    def _warn_of_missing_client(self) -> None:
        for flag, given in (
            ("client-ca-file", self._config.client_ca_file),
            (
                "requestheader-client-ca-file",
                self._config.request_header.client_ca_file,
            ),
        ):
            if not given:
                self._logger.warning(
                    "Neither this flag nor --authentication-kubeconfig is given: its "
                    "client certificates are not accepted",
                    flag=f"--{flag}",
                )

    @property
    def _needs_cluster_settings(self) -> bool:
        complete = (
            self._config.client_ca_file and self._config.request_header.client_ca_file
        )
        return (
            self._client is not None and not self._config.skip_lookup and not complete
        )

    async def poll_cluster_settings(self) -> None:
        """Read the cluster's settings every minute for ever, if they are needed.

        Raises ServingError if the first read is forbidden and
        ``--authentication-tolerate-lookup-failure`` is not set.
        """
        was_read = False
        while self._needs_cluster_settings and self._lookup is not None:
            delay = _LOOKUP_INTERVAL
            try:
                found = await self._lookup.get(CONFIG_MAPS, _NAMESPACE, _CONFIG_MAP)
                was_read = True
                self.authorities.update_from_config_map(found.data or {})
            except NotFound:
                self._logger.v(2 if was_read else 0).info(
                    "No config map extension-apiserver-authentication in kube-system: "
                    "client certificates are accepted only with --client-ca-file"
                )
                was_read = True
            except Forbidden as error:
                # If a read was allowed before, the refusal is no configuration error.
                self._forbidden(error, fatal=not was_read)
            except ServingError as error:
                self._logger.error(
                    "Authentication settings are not usable", err=str(error)
                )
            except (APIError, TransportError, ProtocolError, TooManyReviews) as error:
                self._logger.warning(
                    "Cannot read authentication settings, retrying", err=str(error)
                )
                delay = _LOOKUP_RETRY
            await asyncio.sleep(delay)

    def _forbidden(self, error: Forbidden, *, fatal: bool) -> None:
        mend = (
            "kubectl create rolebinding -n kube-system NAME "
            "--role=extension-apiserver-authentication-reader --user=USER, or give "
            "--authentication-tolerate-lookup-failure"
        )
        if fatal and not self._config.tolerate_lookup_failure:
            msg = f"--authentication-kubeconfig: {error}; mend it with: {mend}"
            raise ServingError(msg) from error
        self._logger.warning(
            "Error looking up in-cluster authentication configuration",
            err=str(error),
            mend=mend,
        )

    async def authenticate(
        self, headers: Mapping[str, str], chain: Sequence[bytes]
    ) -> User:
        """Return the user of a request by its headers and verified chain (DER).

        Names of `headers` are lower case. `chain` begins with the client's certificate
        and ends with that of the authority; it is empty if the client sent none. With
        a certificate of no user, only a bearer token names one. Raises Refused.
        """
        user = self._by_certificate(headers, chain) if chain else None
        if user is None:
            user = await self._by_token(headers.get("authorization", ""))
        if user is None and chain:
            msg = "the client certificate is not the certificate of a user"
            raise Refused(msg)
        if user is None:
            return ANONYMOUS
        if AUTHENTICATED in user.groups:
            return user
        return replace(user, groups=(*user.groups, AUTHENTICATED))

    def _by_certificate(
        self, headers: Mapping[str, str], chain: Sequence[bytes]
    ) -> User | None:
        """Return the user in a front proxy's headers, or in a user's certificate."""
        certificates = [x509.load_der_x509_certificate(each) for each in chain]
        now = self._clock.now()
        if any(each.not_valid_after_utc < now for each in certificates):
            return None
        certificate = certificates[0]
        if self.authorities.proxies.is_in(chain):
            user = self._proxied(headers, certificate)
            if user is not None:
                return user
        if self.authorities.users.is_in(chain):
            return _named_by(certificate)
        return None

    def _proxied(
        self, headers: Mapping[str, str], certificate: x509.Certificate
    ) -> User | None:
        wanted = self.authorities.request_header
        name = _first(headers, wanted.username_headers)
        if not name:
            return None
        common = _attribute(certificate, NameOID.COMMON_NAME)
        if wanted.allowed_names and not set(common) & set(wanted.allowed_names):
            return None
        groups = [
            group
            for header in wanted.group_headers
            for group in headers.get(header.lower(), "").split("\n")
            if group
        ]
        extra = {
            unquote(header[len(prefix) :]): tuple(value.split("\n"))
            for prefix in (each.lower() for each in wanted.extra_prefixes)
            for header, value in headers.items()
            if header.startswith(prefix)
        }
        uid = _first(headers, wanted.uid_headers)
        return User(name, uid, tuple(groups), extra)

    async def _by_token(self, authorization: str) -> User | None:
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or self._client is None:
            return None
        if not token.isascii():
            msg = "invalid bearer token"
            raise Refused(msg)
        key = hashlib.sha256(token.encode()).hexdigest()
        user = self._tokens.get(key)
        if user is None:
            user = await self._reviewed(self._client, token)
            self._tokens.put(key, user, self._config.cache_ttl)
        if user is _REJECTED:
            msg = "invalid bearer token"
            raise Refused(msg)
        return user

    async def _reviewed(self, client: Client, token: str) -> User:
        review = TokenReview(spec=TokenReviewSpec(token=token))
        try:
            answer = await reviewed(lambda: client.create(TOKEN_REVIEWS, review))
        except (APIError, TransportError, ProtocolError, TimeoutError) as error:
            why = str(error) or f"no answer within {REVIEW_TIMEOUT:g} s"
            self._logger.error("Unable to authenticate the request", err=why)
            raise Refused(why) from error
        if not answer.status.authenticated:
            return _REJECTED
        info = answer.status.user
        return User(
            info.username, info.uid, tuple(info.groups or ()), dict(info.extra or {})
        )


def _first(headers: Mapping[str, str], names: Sequence[str]) -> str:
    found = (headers.get(name.lower(), "").split("\n")[0] for name in names)
    return next((value for value in found if value), "")


def _attribute(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str]:
    return [str(each.value) for each in certificate.subject.get_attributes_for_oid(oid)]


def _named_by(certificate: x509.Certificate) -> User | None:
    names = _attribute(certificate, NameOID.COMMON_NAME)
    if not names:
        return None
    groups = _attribute(certificate, NameOID.ORGANIZATION_NAME)
    return User(names[0], "", tuple(groups))
