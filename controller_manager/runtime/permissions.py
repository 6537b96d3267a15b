"""The permissions of a controller: the rules of its role, as data."""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.v1 import EVENTS
from controller_manager.api.resource import AnyResource

_ALL: Final = "*"


class Permission(Struct, frozen=True):
    """A rule of a role: these verbs on a resource of a group; ``*`` is any.

    With `names` it is for the objects of these names only. With a `namespace` it
    belongs to a role in that namespace, instead of a cluster role.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    namespace: str = ""


def allow(
    resource: AnyResource,
    *verbs: str,
    subresource: str = "",
    names: tuple[str, ...] = (),
    namespace: str = "",
) -> Permission:
    """Return a permission for `verbs` on a resource, or on a subresource of it.

    See `Permission` for `names` and `namespace`.
    """
    name = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return Permission(resource.group, name, verbs, names, namespace)


def allow_everywhere(*verbs: str) -> Permission:
    """Return a permission for `verbs` on every resource."""
    return Permission(_ALL, _ALL, verbs)


def within(namespace: str, *permissions: Permission) -> tuple[Permission, ...]:
    """Return permissions that count in one namespace only."""
    return tuple(replace(each, namespace=namespace) for each in permissions)


RECORD_EVENTS: Final = (
    allow(EVENTS, "create", "patch", "update"),
    Permission("events.k8s.io", EVENTS.plural, ("create", "patch", "update")),
)
"""The permissions to record events, in the core group and in events.k8s.io."""
