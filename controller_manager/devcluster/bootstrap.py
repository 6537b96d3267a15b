"""The roles that a cluster is born with, as far as controllers need them.

Facts of the bootstrap policy of kube-apiserver 1.36
(plugin/pkg/auth/authorizer/rbac/bootstrappolicy).
"""

from collections.abc import Iterable
from typing import Any, Final

JSON = dict[str, Any]
Rule = tuple[str, str, str]

_EVENTS: Final = (
    ("", "events", "create,patch,update"),
    ("events.k8s.io", "events", "create,patch,update"),
)

CONTROLLERS: Final[dict[str, tuple[Rule, ...]]] = {
    "deployment-controller": (
        ("apps", "deployments", "get,list,update,watch"),
        ("apps", "deployments/status", "update"),
        ("apps", "deployments/finalizers", "update"),
        ("apps", "replicasets", "create,delete,get,list,patch,update,watch"),
        ("", "pods", "get,list,update,watch"),
        *_EVENTS,
    ),
    "replicaset-controller": (
        ("apps", "replicasets", "get,list,update,watch"),
        ("apps", "replicasets/status", "update"),
        ("apps", "replicasets/finalizers", "update"),
        ("", "pods", "create,delete,list,patch,watch"),
        *_EVENTS,
    ),
    "replication-controller": (
        ("", "replicationcontrollers", "get,list,update,watch"),
        ("", "replicationcontrollers/status", "update"),
        ("", "replicationcontrollers/finalizers", "update"),
        ("", "pods", "create,delete,list,patch,watch"),
        *_EVENTS,
    ),
    "generic-garbage-collector": (
        ("*", "*", "delete,get,list,patch,update,watch"),
        *_EVENTS,
    ),
    "namespace-controller": (
        ("", "namespaces", "delete,get,list,watch"),
        ("", "namespaces/finalize,namespaces/status", "update"),
        ("*", "*", "delete,deletecollection,get,list,watch"),
    ),
    "pod-garbage-collector": (
        ("", "pods", "delete,list,watch"),
        ("", "nodes", "get,list,watch"),
        ("", "pods/status", "patch"),
    ),
    "service-account-controller": (
        ("", "serviceaccounts", "create"),
        *_EVENTS,
    ),
    "root-ca-cert-publisher": (
        ("", "configmaps", "create,update"),
        *_EVENTS,
    ),
    "ttl-after-finished-controller": (
        ("batch", "jobs", "delete,get,list,watch"),
        *_EVENTS,
    ),
    "ttl-controller": (
        ("", "nodes", "list,patch,update,watch"),
        *_EVENTS,
    ),
}
"""By service account in kube-system: group, resources, verbs."""

MANAGER: Final = "system:kube-controller-manager"
"""The user that kubeadm's controller-manager.conf names, and its role."""

_LEASE: Final = "kube-controller-manager"
_MANAGER_RULES: Final[tuple[Rule, ...]] = (
    *_EVENTS,
    ("coordination.k8s.io", "leases", "create"),
    ("", "secrets,serviceaccounts", "create"),
    ("", "secrets", "delete"),
    ("", "configmaps,namespaces,secrets,serviceaccounts", "get"),
    ("", "secrets,serviceaccounts", "update"),
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
    ("", "serviceaccounts/token", "create"),
    ("*", "*", "list,watch"),
)
_PUBLIC_PATHS: Final = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY_PATHS: Final = (
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/openapi",
    "/openapi/*",
)


def bootstrap_objects() -> list[JSON]:
    """Return the cluster roles and bindings."""
    objects = [
        *_granted("cluster-admin", [_rule(("*", "*", "*")), _paths("*")], "Group",
                  "system:masters"),
        *_granted("system:public-info-viewer", [_paths(*_PUBLIC_PATHS)], "Group",
                  "system:authenticated", "system:unauthenticated"),
        *_granted("system:discovery", [_paths(*_PUBLIC_PATHS, *_DISCOVERY_PATHS)],
                  "Group", "system:authenticated"),
        *_granted(
            MANAGER,
            [*map(_rule, _MANAGER_RULES), _on_the_lease()],
            "User",
            MANAGER,
        ),
    ]  # fmt: skip
    for account, rules in CONTROLLERS.items():
        objects += _granted(
            f"system:controller:{account}",
            [_rule(rule) for rule in rules],
            "ServiceAccount",
            account,
        )
    return objects


def _rule(rule: Rule) -> JSON:
    group, resources, verbs = rule
    return {
        "apiGroups": [group],
        "resources": resources.split(","),
        "verbs": verbs.split(","),
    }


def _paths(*paths: str) -> JSON:
    return {"nonResourceURLs": list(paths), "verbs": ["*" if "*" in paths else "get"]}


def _on_the_lease() -> JSON:
    return {
        **_rule(("coordination.k8s.io", "leases", "get,update")),
        "resourceNames": [_LEASE],
    }


def _granted(
    name: str, rules: Iterable[JSON], subject: str, *subjects: str
) -> tuple[JSON, JSON]:
    """Return a cluster role and the binding that gives it to subjects."""
    api_version = "rbac.authorization.k8s.io/v1"
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    where = (
        {"namespace": "kube-system"}
        if subject == "ServiceAccount"
        else {"apiGroup": "rbac.authorization.k8s.io"}
    )
    role = {
        "apiVersion": api_version,
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels},
        "rules": list(rules),
    }
    binding = {
        "apiVersion": api_version,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": labels},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": name,
        },
        "subjects": [{"kind": subject, "name": each, **where} for each in subjects],
    }
    return role, binding
