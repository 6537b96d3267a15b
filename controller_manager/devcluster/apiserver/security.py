"""Users and permissions: authentication and authorization."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar, Final, Protocol

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme import statuses

# Authentication: users, bearer tokens, and tokens of service accounts.

AUDIENCE: Final = "https://kubernetes.default.svc"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
"""The key of a user's extra that names the credential of the user."""


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user; `extra` has further facts about it, by key."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = (AUTHENTICATED,)
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def as_json(self) -> JSON:
        """Return the user as a UserInfo, without empty fields."""
        found = {
            "username": self.name,
            "uid": self.uid,
            "groups": list(self.groups),
            "extra": {key: list(self.extra[key]) for key in sorted(self.extra)},
        }
        return {key: value for key, value in found.items() if value}


ANONYMOUS: Final = User("system:anonymous", groups=(UNAUTHENTICATED,))


def account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of the service accounts of a namespace."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def account_user(
    namespace: str,
    name: str,
    uid: str,
    extra: Mapping[str, tuple[str, ...]] | None = None,
) -> User:
    """Return the user of a service account."""
    groups = (*account_groups(namespace), AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", uid, groups, extra or {})


@dataclass(frozen=True, slots=True)
class BoundObject:
    """The object that a token is bound to: the token is valid as long as it exists.

    `kind` is Pod, Secret or Node.
    """

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Identity:
    """The user that a token authenticates, and the audiences of the token."""

    user: User
    audiences: tuple[str, ...] = (AUDIENCE,)


@dataclass(frozen=True, slots=True)
class AccountToken:
    """The claims of a new token of a service account; `uid` is that of the account."""

    namespace: str
    name: str
    uid: str
    ends_at: datetime
    audiences: Sequence[str] = (AUDIENCE,)
    bound: BoundObject | None = None


class TokenError(Exception):
    """A token of a service account is not valid; the message says why."""


class AccountTokenIssuer(Protocol):
    """Issues the tokens of service accounts, and verifies them."""

    def issue(self, content: AccountToken) -> str:
        """Return a new token."""

    def identify(self, token: str) -> Identity | None:
        """Return the user that a token authenticates, `None` for foreign tokens.

        Raises TokenError if the token is not valid now.
        """

    def revoke(self, name: str) -> None:
        """Invalidate all tokens of a user that were issued before."""


class TokenSource(Protocol):
    """Finds the users of tokens that are stored in objects of the cluster."""

    def __call__(self, token: str) -> User | None:
        """Return the user of a token, `None` if no object has it."""


class Tokens:
    """Static tokens, tokens issued for service accounts, and tokens in objects.

    A token of a service account is valid until its end, while the account exists.
    """

    def __init__(
        self,
        static: Mapping[str, User],
        issuer: AccountTokenIssuer,
        source: TokenSource,
    ) -> None:
        """Take the tokens that are valid from the start.

        `issuer` verifies the tokens of service accounts, `source` those in objects.
        """
        self._static = dict(static)
        self._issuer = issuer
        self._source = source

    def add(self, token: str, user: User) -> None:
        """Make a token valid for a user, without an expiry."""
        self._static[token] = user

    def revoke(self, name: str) -> None:
        """Make all tokens of a user invalid."""
        for token, user in list(self._static.items()):
            if user.name == name:
                del self._static[token]
        self._issuer.revoke(name)

    def authenticate(self, header: str | None) -> User:
        """Return the user of an Authorization header; raises Refusal 401.

        As upstream does, ignore a header without a bearer token.
        """
        scheme, token, *_ = [*(header or "").strip().split(" ", 2), "", ""]
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        user = self.lookup(token)
        if user is None:
            raise statuses.unauthorized()
        return user

    def lookup(self, token: str) -> User | None:
        """Return the user of a token, `None` if it is not valid here and now."""
        if user := self._static.get(token):
            return user
        try:
            found = self.identify(token)
        except TokenError:
            return None
        if found is None or AUDIENCE not in found.audiences:
            return None
        return found.user

    def identify(self, token: str) -> Identity | None:
        """Return the user that a token authenticates, `None` for an unknown token.

        Raises TokenError if the token is known and not valid now.
        """
        if user := self._static.get(token):
            # Upstream's token file has a uid for each user.
            return Identity(user if user.uid else replace(user, uid=user.name))
        if found := self._issuer.identify(token):
            return found
        user = self._source(token)
        return Identity(user) if user else None

    def is_known(self, name: str) -> bool:
        """Tell whether a user has one of the tokens that are valid from the start."""
        return any(user.name == name for user in self._static.values())

    def issue(self, namespace: str, name: str, uid: str, ends_at: datetime) -> str:
        """Return a new token of a service account, for this API server."""
        return self._issuer.issue(AccountToken(namespace, name, uid, ends_at))

    def issue_as(self, content: AccountToken) -> str:
        """Return a new token of a service account with these claims."""
        return self._issuer.issue(content)


def forbid_anonymous(path: str) -> statuses.Refusal:
    """Return the refusal of a request without credentials."""
    message = f'forbidden: User "{ANONYMOUS.name}" cannot access path "{path}"'
    return statuses.Refusal(403, "Forbidden", message, {})


# Authorization: the attributes of a request, the decision, and the refusal.

MASTERS: Final = "system:masters"
"""The group whose members may do everything, without any role."""

EVERYTHING: Final[Sequence[JSON]] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
"""The rules of a user who may do everything."""

_ESCAPED: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a request: verb, and object or `path`."""

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def full_resource(self) -> str:
        """``widgets`` or ``widgets/status``."""
        if self.subresource:
            return f"{self.resource}/{self.subresource}"
        return self.resource


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a request, and its reason if the authorizer gives one."""

    is_allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that apply to a user, and the errors met while they were read."""

    rules: Sequence[JSON]
    errors: Sequence[str] = ()

    @property
    def error(self) -> str:
        """The errors as Go's Aggregate prints them."""
        return aggregate(self.errors)


def aggregate(errors: Sequence[str]) -> str:
    """Return several errors as Go's Aggregate prints them: each once."""
    found = list(dict.fromkeys(errors))
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"


class Authorizer:
    """Decides whether a user may do something; this one allows everything."""

    enforced: ClassVar[bool] = False
    """True if the authorizer can refuse a request of an authenticated user."""

    def check(self, user: User, attributes: Attributes) -> None:
        """Raise a Refusal if `user` may not do it."""
        decision = self.decide(user, attributes)
        if not decision.is_allowed:
            raise _refusal_of(user, attributes, decision.reason)

    def allows(self, user: User, attributes: Attributes) -> bool:
        """Tell whether `user` may do it."""
        return self.decide(user, attributes).is_allowed

    def decide(self, user: User, attributes: Attributes) -> Decision:
        """Return the decision on a request of `user`."""
        del user, attributes
        return Decision(is_allowed=True)

    def review(self, user: User, attributes: Attributes) -> Decision:
        """Return the decision for an access review about a user."""
        return self.decide(user, attributes)

    def rules_for(self, user: User, namespace: str) -> Rules:
        """Return the rules of `user` in a namespace, with those for all namespaces."""
        del user, namespace
        return Rules(EVERYTHING)


class KnownUsers(Authorizer):
    """Allows everything to the users that the cluster knows.

    An access review denies everything to unknown users.
    """

    def __init__(self, is_known: Callable[[str], bool]) -> None:
        self._is_known = is_known

    def review(self, user: User, attributes: Attributes) -> Decision:
        """Return the decision for a review: only known users may do everything."""
        del attributes
        return Decision(is_allowed=self._is_known(user.name))


def _refusal_of(user: User, attributes: Attributes, reason: str) -> statuses.Refusal:
    """Return the refusal of a request (responsewriters.ForbiddenStatusError)."""
    why = f": {reason}" if reason else ""
    details: JSON = {}
    if attributes.path:
        subject = "forbidden"
        wish = f'path "{attributes.path}"'
    else:
        what = statuses.qualified(attributes.group, attributes.resource)
        named = f'{what} "{attributes.name}"' if attributes.name else what
        subject = f"{named} is forbidden"
        wish = _wish(attributes)
        parts = {"name": attributes.name, "group": attributes.group}
        details = {name: each for name, each in parts.items() if each}
        details["kind"] = attributes.resource
    text = f'User "{user.name}" cannot {attributes.verb} {wish}'
    message = f"{subject}: {text.translate(_ESCAPED)}{why}"
    return statuses.Refusal(403, "Forbidden", message, details)


def _wish(attributes: Attributes) -> str:
    where = (
        f'in the namespace "{attributes.namespace}"'
        if attributes.namespace
        else "at the cluster scope"
    )
    return (
        f'resource "{attributes.full_resource}" in API group "{attributes.group}" '
        f"{where}"
    )
