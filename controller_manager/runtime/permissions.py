"""The permissions of a controller: the rules of its role, as data."""

from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import EVENTS
from controller_manager.api.resource import AnyResource

_ALL: Final = "*"


class Permission(Struct, frozen=True):
    """A rule of a role: these verbs on a resource of a group; ``*`` is any.

    With `names`, the rule is about objects of these names only.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


def allow(resource: AnyResource, *verbs: str, subresource: str = "") -> Permission:
    """Return a permission for `verbs` on a resource, or on a subresource of it."""
    name = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return Permission(resource.group, name, verbs)


def allow_everywhere(*verbs: str) -> Permission:
    """Return a permission for `verbs` on every resource."""
    return Permission(_ALL, _ALL, verbs)


RECORD_EVENTS: Final = (
    allow(EVENTS, "create", "patch", "update"),
    Permission("events.k8s.io", EVENTS.plural, ("create", "patch", "update")),
)
"""The permissions to record events, in the core group and in events.k8s.io."""
