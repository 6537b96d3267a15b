"""Authorization: the attributes of a request, the decision, and the refusal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal, qualified

from .authentication import User

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
            raise refusal_of(user, attributes, decision.reason)

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


def refusal_of(user: User, attributes: Attributes, reason: str) -> Refusal:
    """Return the refusal of a request (responsewriters.ForbiddenStatusError)."""
    why = f": {reason}" if reason else ""
    details: JSON = {}
    if attributes.path:
        subject = "forbidden"
        wish = f'path "{attributes.path}"'
    else:
        what = qualified(attributes.group, attributes.resource)
        named = f'{what} "{attributes.name}"' if attributes.name else what
        subject = f"{named} is forbidden"
        wish = _wish(attributes)
        parts = {"name": attributes.name, "group": attributes.group}
        details = {name: each for name, each in parts.items() if each}
        details["kind"] = attributes.resource
    text = f'User "{user.name}" cannot {attributes.verb} {wish}'
    message = f"{subject}: {text.translate(_ESCAPED)}{why}"
    return Refusal(403, "Forbidden", message, details)


def _wish(attributes: Attributes) -> str:
    """Return the resource of a request, and its scope."""
    where = (
        f'in the namespace "{attributes.namespace}"'
        if attributes.namespace
        else "at the cluster scope"
    )
    return (
        f'resource "{attributes.full_resource}" in API group "{attributes.group}" '
        f"{where}"
    )
