"""Short functions that build bootstrap roles and their bindings."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from controller_manager.api.json_objects import JSON

API_VERSION: Final = "rbac.authorization.k8s.io/v1"
GROUP: Final = "rbac.authorization.k8s.io"
LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
"""An annotation; the server does not reconcile objects with the value "false"."""

READ: Final = "get list watch"
WRITE: Final = "create delete deletecollection patch update"
READ_WRITE: Final = "create delete deletecollection get list patch update watch"


def rule(verbs: str, groups: str, resources: str, names: str = "") -> JSON:
    """Return a rule for resources; each text is a list, with spaces between.

    The core group is called ``core``.
    """
    found: JSON = {
        "apiGroups": ["" if each == "core" else each for each in groups.split()],
        "resources": resources.split(),
        "verbs": verbs.split(),
    }
    if names:
        found["resourceNames"] = names.split()
    return found


def paths(verbs: str, urls: str) -> JSON:
    """Return a rule for paths that are no resources."""
    return {"nonResourceURLs": urls.split(), "verbs": verbs.split()}


RECORD_EVENTS: Final = rule("create patch update", "core events.k8s.io", "events")


def cluster_role(
    name: str, rules: Iterable[JSON], labels: Mapping[str, str] | None = None
) -> JSON:
    """Return a bootstrap cluster role."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterRole",
        "metadata": with_bootstrap_metadata({"name": name, "labels": labels or {}}),
        "rules": list(rules),
    }


def aggregated_role(
    name: str, label: str, labels: Mapping[str, str] | None = None
) -> JSON:
    """Return a cluster role that gathers the rules of the roles with a label."""
    selector = {"matchLabels": {label: "true"}}
    role = cluster_role(name, (), labels)
    del role["rules"]
    return {**role, "aggregationRule": {"clusterRoleSelectors": [selector]}}


def role(namespace: str, name: str, *rules: JSON) -> JSON:
    """Return a bootstrap role of a namespace."""
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": API_VERSION,
        "kind": "Role",
        "metadata": with_bootstrap_metadata(metadata),
        "rules": list(rules),
    }


def binding(name: str, subjects: Iterable[JSON], role_name: str = "") -> JSON:
    """Return the binding of a cluster role, which has its name by default."""
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": role_name or name}
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": with_bootstrap_metadata({"name": name}),
        "roleRef": reference,
        "subjects": list(subjects),
    }


def local_binding(
    namespace: str, name: str, subjects: Iterable[JSON], role_name: str = ""
) -> JSON:
    """Return the binding of a role of the same namespace."""
    reference = {"apiGroup": GROUP, "kind": "Role", "name": role_name or name}
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": API_VERSION,
        "kind": "RoleBinding",
        "metadata": with_bootstrap_metadata(metadata),
        "roleRef": reference,
        "subjects": list(subjects),
    }


def user(name: str) -> JSON:
    """Return a user as a subject."""
    return {"apiGroup": GROUP, "kind": "User", "name": name}


def group(name: str) -> JSON:
    """Return a group as a subject."""
    return {"apiGroup": GROUP, "kind": "Group", "name": name}


def account(name: str, namespace: str = "kube-system") -> JSON:
    """Return a service account as a subject."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def with_bootstrap_metadata(metadata: Mapping[str, Any]) -> JSON:
    """Return the metadata of a bootstrap object: its marks are added."""
    return {
        **metadata,
        "annotations": {AUTO_UPDATE: "true"},
        "labels": {**LABELS, **(metadata.get("labels") or {})},
    }
