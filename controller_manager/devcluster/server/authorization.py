"""Authorization: the attributes of a request, and the refusal."""

from dataclasses import dataclass
from typing import Any

from controller_manager.devcluster.server.authentication import User
from controller_manager.devcluster.server.statuses import Refusal, qualified

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Attributes:
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

    def check(self, user: User, attributes: Attributes) -> None:
        """Raise a Refusal if `user` may not do it."""
        if not self.allows(user, attributes):
            raise _refusal(user, attributes)

    def allows(self, user: User, attributes: Attributes) -> bool:
        """Tell whether `user` may do it."""
        del user, attributes
        return True


def _refusal(user: User, attributes: Attributes) -> Refusal:
    if attributes.path:
        message = (
            f'User "{user.name}" cannot {attributes.verb} path "{attributes.path}"'
        )
        return Refusal(403, "Forbidden", f"forbidden: {message}", {})
    where = (
        f'in the namespace "{attributes.namespace}"'
        if attributes.namespace
        else "at the cluster scope"
    )
    what = qualified(attributes.group, attributes.resource)
    named = f'{what} "{attributes.name}"' if attributes.name else what
    message = (
        f'{named} is forbidden: User "{user.name}" cannot {attributes.verb} resource '
        f'"{attributes.full_resource}" in API group "{attributes.group}" {where}'
    )
    details: JSON = {"kind": attributes.resource}
    if attributes.name:
        details["name"] = attributes.name
    if attributes.group:
        details["group"] = attributes.group
    return Refusal(403, "Forbidden", message, details)
