"""Manifests of roles, made from permissions."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from controller_manager.runtime.permissions import Permission

JSON = dict[str, Any]

_API_VERSION: Final = "rbac.authorization.k8s.io/v1"
_GROUP: Final = "rbac.authorization.k8s.io"
_NAMESPACE: Final = "kube-system"


def rule(permission: Permission) -> JSON:
    """Return a permission as the rule of a role."""
    names = {"resourceNames": list(permission.names)} if permission.names else {}
    return {
        "apiGroups": [permission.group],
        "resources": [permission.resource],
        **names,
        "verbs": list(permission.verbs),
    }


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
    name: str, subjects: Iterable[JSON], labels: Mapping[str, str] | None = None
) -> JSON:
    """Return a binding that gives the cluster role of the same name to subjects."""
    return {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(name, labels),
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": name},
        "subjects": list(subjects),
    }


def service_account(name: str, namespace: str = _NAMESPACE) -> JSON:
    """Return a service account as a subject."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def user_or_group(kind: str, name: str) -> JSON:
    """Return a ``User`` or a ``Group`` as a subject."""
    return {"kind": kind, "name": name, "apiGroup": _GROUP}


def controller_role_name(account: str) -> str:
    """Return the name that kube-apiserver gives a controller's role."""
    return f"system:controller:{account}"


def _metadata(name: str, labels: Mapping[str, str] | None) -> JSON:
    return {"name": name, "labels": dict(labels)} if labels else {"name": name}
