"""Authorisation: by group, by path, or by a review of the API server.

Upstream: apiserver pkg/server/options/authorization.go (delegating).
"""

from dataclasses import dataclass

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

from .reviews import MASTERS, REVIEW_TIMEOUT, ExpiringCache, User, reviewed


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
        self._cache: ExpiringCache[tuple[User, str, str], Decision] = ExpiringCache(
            clock
        )
        if client is None:
            logger.warning(
                "No --authorization-kubeconfig: users outside of system:masters may "
                "read only the paths of --authorization-always-allow-paths"
            )

    async def decide(self, user: User, verb: str, path: str) -> Decision:
        """Decide whether `user` may send a request with `verb` (lower case) to `path`.

        Raises ReviewError if the API server does not answer the review.
        """
        if MASTERS in user.groups or self._is_open(path):
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
        self, client: Client, user: User, verb: str, path: str
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
            answer = await reviewed(
                lambda: client.create(SUBJECT_ACCESS_REVIEWS, review)
            )
        except (APIError, TransportError, ProtocolError, TimeoutError) as error:
            why = str(error) or f"no answer within {REVIEW_TIMEOUT:g} s"
            raise ReviewError(why) from error
        allowed = answer.status.allowed and not answer.status.denied
        return Decision(allowed, answer.status.reason)
