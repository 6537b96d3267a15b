"""Who a request is from: bearer tokens."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller_manager.devcluster.statuses import Refusal, unauthorized

JSON = dict[str, Any]

AUDIENCE: Final = "https://kubernetes.default.svc"


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ("system:authenticated",)

    def as_json(self) -> JSON:
        """Return the UserInfo."""
        return {
            "username": self.name,
            "uid": self.uid or self.name,
            "groups": list(self.groups),
        }


ANONYMOUS: Final = User("system:anonymous", groups=("system:unauthenticated",))


class Tokens:
    """Static tokens and those issued for service accounts.

    There is no RBAC: whoever has a token may do everything.
    """

    def __init__(self, static: Mapping[str, User], rng: random.Random) -> None:
        """Take the tokens that are valid from the start."""
        self._users = dict(static)
        self._rng = rng

    def authenticate(self, header: str | None) -> User:
        """Return the user of an Authorization header; raises Refusal 401."""
        if not header:
            return ANONYMOUS
        scheme, _, token = header.partition(" ")
        user = self._users.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user

    def lookup(self, token: str) -> User | None:
        """Return the user of a token."""
        return self._users.get(token)

    def is_known(self, name: str) -> bool:
        """Tell whether a token of that user is valid."""
        return any(user.name == name for user in self._users.values())

    def issue(self, namespace: str, name: str, uid: str) -> str:
        """Return a new token of a service account."""
        token = f"sa-{self._rng.getrandbits(256):064x}"
        groups = (
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        )
        user = f"system:serviceaccount:{namespace}:{name}"
        self._users[token] = User(user, uid, groups)
        return token


def forbid_anonymous(path: str) -> Refusal:
    """Return the refusal of a request without credentials."""
    message = f'forbidden: User "{ANONYMOUS.name}" cannot access path "{path}"'
    return Refusal(403, "Forbidden", message, {})
