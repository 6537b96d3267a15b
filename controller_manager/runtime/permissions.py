"""The permissions of a controller as data, and the manifests of roles with them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.v1 import EVENTS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import AnyResource

_ALL: Final = "*"


class Permission(Struct, frozen=True):
    """A rule of a role: these verbs on a resource of a group; ``*`` is any.

    With `names` it is for the objects of these names only. With a `namespace` it
    belongs to a role in that namespace, instead of a cluster role. A `cluster` is
    another one than that of the process.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    namespace: str = ""
    cluster: str = ""


def allow(
    resource: AnyResource,
    *verbs: str,
    subresource: str = "",
    names: tuple[str, ...] = (),
    namespace: str = "",
) -> Permission:
    """Return a permission for `verbs` on a resource, or on a subresource of it.

    See `Permission` for `names` and `namespace`. It counts in the cluster of the
    resource.

    >>> allow(WEBSITES, "patch", subresource="status").resource
    'websites/status'
    """
    name = f"{resource.plural}/{subresource}" if subresource else resource.plural
    where = (namespace, resource.cluster)
    return Permission(resource.group, name, verbs, names, *where)


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


_API_VERSION: Final = "rbac.authorization.k8s.io/v1"
_GROUP: Final = "rbac.authorization.k8s.io"
_NAMESPACE: Final = "kube-system"


def rule(permission: Permission) -> JSON:
    """Return a permission as the rule of a role."""
    found: JSON = {
        "apiGroups": [permission.group],
        "resources": [permission.resource],
        "verbs": list(permission.verbs),
    }
    if permission.names:
        found["resourceNames"] = list(permission.names)
    return found


def controller_roles(
    account: str,
    permissions: Iterable[Permission],
    labels: Mapping[str, str] | None = None,
) -> Iterator[JSON]:
    """Yield the roles of a controller's service account, each with its binding.

    There is a cluster role for the permissions that count everywhere, and a role in
    each namespace that permissions are for. All have one name.
    """
    by_namespace: dict[str, list[Permission]] = {}
    for each in permissions:
        by_namespace.setdefault(each.namespace, []).append(each)
    name, subjects = controller_role_name(account), [service_account(account)]
    for namespace, allowed in by_namespace.items():
        both = (
            cluster_role(name, map(rule, allowed), labels),
            cluster_role_binding(name, subjects, labels),
        )
        yield from (in_namespace(each, namespace) for each in both)


def in_namespace(role: JSON, namespace: str) -> JSON:
    """Return a cluster role, or its binding, as one of a namespace, unless it is ""."""
    if not namespace:
        return role
    moved = {
        **role,
        "kind": role["kind"].removeprefix("Cluster"),
        "metadata": {**role["metadata"], "namespace": namespace},
    }
    if reference := role.get("roleRef"):
        moved["roleRef"] = {**reference, "kind": "Role"}
    return moved


def cluster_role(
    name: str, rules: Iterable[JSON], labels: Mapping[str, str] | None = None
) -> JSON:
    """Return a cluster role."""
    return {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRole",
        "metadata": _metadata(name, labels),
        "rules": list(rules),
    }


def cluster_role_binding(
    name: str,
    subjects: Iterable[JSON],
    labels: Mapping[str, str] | None = None,
    *,
    role: str = "",
) -> JSON:
    """Return a binding that gives a cluster role to subjects.

    The role has the same name as the binding by default.
    """
    return {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(name, labels),
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role or name},
        "subjects": list(subjects),
    }


def service_account(name: str, namespace: str = _NAMESPACE) -> JSON:
    """Return a service account as a subject."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def controller_role_name(account: str) -> str:
    """Return the name that kube-apiserver gives a controller's role."""
    return f"system:controller:{account}"


def _metadata(name: str, labels: Mapping[str, str] | None) -> JSON:
    return {"name": name, "labels": dict(labels)} if labels else {"name": name}
