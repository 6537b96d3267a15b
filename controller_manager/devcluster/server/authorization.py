"""Authorization: the attributes of a request, and the refusal."""

from dataclasses import dataclass
from typing import Any

from controller_manager.devcluster.server.authentication import User
from controller_manager.devcluster.server.statuses import Refusal, qualified

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a user wants to do, to an object or to a `path`."""

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


class Authorizer:
    """Decides whether a user may do something; this one allows everything."""

    enforced: bool = False
    """Whether the authorizer ever refuses anything."""

    def check(self, user: User, attempt: Attempt) -> None:
        """Raise a Refusal if `user` may not do it."""
        if not self.allows(user, attempt):
            raise _refusal(user, attempt)

    def allows(self, user: User, attempt: Attempt) -> bool:
        """Tell whether `user` may do it."""
        del user, attempt
        return True


def _refusal(user: User, attempt: Attempt) -> Refusal:
    if attempt.path:
        message = f'User "{user.name}" cannot {attempt.verb} path "{attempt.path}"'
        return Refusal(403, "Forbidden", f"forbidden: {message}", {})
    where = (
        f'in the namespace "{attempt.namespace}"'
        if attempt.namespace
        else "at the cluster scope"
    )
    what = qualified(attempt.group, attempt.resource)
    named = f'{what} "{attempt.name}"' if attempt.name else what
    message = (
        f'{named} is forbidden: User "{user.name}" cannot {attempt.verb} resource '
        f'"{attempt.full_resource}" in API group "{attempt.group}" {where}'
    )
    details: JSON = {"kind": attempt.resource}
    if attempt.name:
        details["name"] = attempt.name
    if attempt.group:
        details["group"] = attempt.group
    return Refusal(403, "Forbidden", message, details)
