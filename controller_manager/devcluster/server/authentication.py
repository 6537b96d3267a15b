"""Authentication: bearer tokens, client certificates, impersonation."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from controller_manager.clock import Clock
from controller_manager.devcluster.server.statuses import Refusal, unauthorized

JSON = dict[str, Any]

AUDIENCE: Final = "https://kubernetes.default.svc"
AUTHENTICATED: Final = "system:authenticated"


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = (AUTHENTICATED,)

    def as_json(self) -> JSON:
        """Return the user as a UserInfo."""
        return {
            "username": self.name,
            "uid": self.uid or self.name,
            "groups": list(self.groups),
        }


ANONYMOUS: Final = User("system:anonymous", groups=("system:unauthenticated",))


def account_user(namespace: str, name: str, uid: str) -> User:
    """Return the user that a service account is."""
    groups = (
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        AUTHENTICATED,
    )
    return User(f"system:serviceaccount:{namespace}:{name}", uid, groups)


@dataclass(frozen=True, slots=True)
class _Issued:
    """The user of a token, its end, and the service account that it is for."""

    user: User
    ends_at: datetime | None = None
    account: tuple[str, str] | None = None


class Tokens:
    """Static tokens, tokens issued for service accounts, and tokens in objects.

    A token of a service account is valid until its end, while the account exists.
    """

    def __init__(
        self,
        static: Mapping[str, User],
        rng: random.Random,
        clock: Clock,
        uid_of: Callable[[str, str], str | None],
        user_of: Callable[[str], User | None],
    ) -> None:
        """Take the tokens that are valid from the start.

        `uid_of` returns the uid of a service account by namespace and name, `user_of`
        the user of a token that an object of the cluster makes valid.
        """
        self._issued = {token: _Issued(user) for token, user in static.items()}
        self._rng = rng
        self._clock = clock
        self._uid_of = uid_of
        self._user_of = user_of

    def add(self, token: str, user: User) -> None:
        """Make a token valid for a user, without an end."""
        self._issued[token] = _Issued(user)

    def revoke(self, name: str) -> None:
        """Make all tokens of a user invalid."""
        for token, issued in list(self._issued.items()):
            if issued.user.name == name:
                del self._issued[token]

    def authenticate(self, header: str | None) -> User:
        """Return the user of an Authorization header; raises Refusal 401."""
        if not header:
            return ANONYMOUS
        scheme, _, token = header.partition(" ")
        user = self.lookup(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user

    def lookup(self, token: str) -> User | None:
        """Return the user of a token, `None` if it is not valid now."""
        issued = self._issued.get(token)
        if issued is None:
            return self._user_of(token)
        if issued.ends_at is not None and self._clock.now() >= issued.ends_at:
            return None
        if issued.account and self._uid_of(*issued.account) != issued.user.uid:
            return None
        return issued.user

    def is_known(self, name: str) -> bool:
        """Tell whether a user has a valid token."""
        return any(
            issued.user.name == name and self.lookup(token) is not None
            for token, issued in self._issued.items()
        )

    def issue(self, namespace: str, name: str, uid: str, ends_at: datetime) -> str:
        """Return a new token of a service account."""
        token = f"sa-{self._rng.getrandbits(256):064x}"
        user = account_user(namespace, name, uid)
        self._issued[token] = _Issued(user, ends_at, (namespace, name))
        return token


def impersonated(headers: Mapping[str, str]) -> User | None:
    """Return the user that the Impersonate headers name, `None` without them."""
    name = headers.get("impersonate-user", "")
    if not name:
        return None
    listed = headers.get("impersonate-group", "")
    groups = [group for group in listed.split("\n") if group]
    return User(
        name,
        headers.get("impersonate-uid", ""),
        tuple(dict.fromkeys([*groups, AUTHENTICATED])),
    )


def forbid_anonymous(path: str) -> Refusal:
    """Return the refusal of a request without credentials."""
    message = f'forbidden: User "{ANONYMOUS.name}" cannot access path "{path}"'
    return Refusal(403, "Forbidden", message, {})
