"""The bootstrap roles of a cluster, as far as controllers need them.

They follow the bootstrap policy of kube-apiserver 1.36
(plugin/pkg/auth/authorizer/rbac/bootstrappolicy). The role of a controller follows
from the permissions in its descriptor.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from controller_manager.api.authentication.v1 import TOKEN_REVIEWS
from controller_manager.api.authorization.v1 import SUBJECT_ACCESS_REVIEWS
from controller_manager.api.certificates.v1 import SIGNING_REQUESTS
from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.core.v1 import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from controller_manager.registry import Registry
from controller_manager.runtime.permissions import (
    RECORD_EVENTS,
    Permission,
    allow,
    allow_everywhere,
)
from controller_manager.runtime.roles import (
    cluster_role,
    cluster_role_binding,
    controller_roles,
    rule,
    user_or_group,
)

JSON = dict[str, Any]

MANAGER: Final = "system:kube-controller-manager"
"""The user that kubeadm's controller-manager.conf names, and the name of its role."""

_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_LEASE: Final = "kube-controller-manager"
_SECRETS: Final = ("create", "delete", "get", "update")
_MANAGER_PERMISSIONS: Final = (
    *RECORD_EVENTS,
    allow(LEASES, "create"),
    Permission("", "secrets", _SECRETS),
    allow(SERVICE_ACCOUNTS, "create", "get", "update"),
    allow(CONFIG_MAPS, "get"),
    allow(NAMESPACES, "get"),
    allow(TOKEN_REVIEWS, "create"),
    allow(SUBJECT_ACCESS_REVIEWS, "create"),
    allow(SERVICE_ACCOUNTS, "create", subresource="token"),
    allow_everywhere("list", "watch"),
)
_SELF_REVIEWS: Final = (
    Permission("authorization.k8s.io", "selfsubjectaccessreviews", ("create",)),
    Permission("authorization.k8s.io", "selfsubjectrulesreviews", ("create",)),
    Permission("authentication.k8s.io", "selfsubjectreviews", ("create",)),
)
"""What every user may ask about itself."""

_PUBLIC_PATHS: Final = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY_PATHS: Final = (
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/openapi",
    "/openapi/*",
)


def bootstrap_objects(build: Registry) -> list[JSON]:
    """Return cluster roles and bindings, also for the controllers of a build."""
    everybody = [
        user_or_group("Group", f"system:{each}authenticated") for each in ("", "un")
    ]
    return [
        *_granted(
            "cluster-admin",
            [rule(allow_everywhere("*")), _paths("*")],
            user_or_group("Group", "system:masters"),
        ),
        *_granted("system:public-info-viewer", [_paths(*_PUBLIC_PATHS)], *everybody),
        *_granted(
            "system:discovery",
            [_paths(*_PUBLIC_PATHS, *_DISCOVERY_PATHS)],
            everybody[0],
        ),
        *_granted("system:basic-user", map(rule, _SELF_REVIEWS), everybody[0]),
        *_granted(
            MANAGER,
            [*map(rule, _MANAGER_PERMISSIONS), _on_the_lease()],
            user_or_group("User", MANAGER),
        ),
        *_of_kubelets(),
        *_of_controllers(build),
    ]


def _of_kubelets() -> Iterator[JSON]:
    """Return the roles that administrators bind to nodes and newcomers."""
    about = "system:certificates.k8s.io:certificatesigningrequests"
    for name in ("nodeclient", "selfnodeclient"):
        permission = allow(SIGNING_REQUESTS, "create", subresource=name)
        yield cluster_role(f"{about}:{name}", [rule(permission)], _LABELS)
    permission = allow(SIGNING_REQUESTS, "create", "get", "list", "watch")
    yield cluster_role("system:node-bootstrapper", [rule(permission)], _LABELS)


def _of_controllers(build: Registry) -> Iterator[JSON]:
    accounts: dict[str, dict[Permission, None]] = {}
    for descriptor in build.descriptors:
        if descriptor.runs_first:
            continue  # It acts as the manager itself.
        # Several controllers may share an account, and so a role.
        granted = accounts.setdefault(descriptor.account, {})
        granted.update(dict.fromkeys(descriptor.permissions))
    for account, permissions in accounts.items():
        yield from controller_roles(account, permissions, _LABELS)


def _paths(*paths: str) -> JSON:
    return {"nonResourceURLs": list(paths), "verbs": ["*" if "*" in paths else "get"]}


def _on_the_lease() -> JSON:
    return {**rule(allow(LEASES, "get", "update")), "resourceNames": [_LEASE]}


def _granted(name: str, rules: Iterable[JSON], *subjects: JSON) -> tuple[JSON, JSON]:
    """Return a cluster role, and the binding that gives it to the subjects."""
    role = cluster_role(name, rules, _LABELS)
    return role, cluster_role_binding(name, subjects, _LABELS)
