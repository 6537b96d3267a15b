"""Cluster roles for nodes (NodeRules of policy.go)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON

from .policy import READ, RECORD_EVENTS, binding, cluster_role, rule, user

_REQUESTS: Final = rule(
    f"create {READ}", "certificates.k8s.io", "certificatesigningrequests"
)


def roles_of_nodes() -> Iterator[JSON]:
    """Yield the cluster roles of kubelets, kube-proxy and the problem detector."""
    yield cluster_role("system:node", _NODE)
    yield cluster_role("system:node-bootstrapper", [_REQUESTS])
    yield cluster_role("system:node-problem-detector", _PROBLEM_DETECTOR)
    yield cluster_role("system:node-proxier", _PROXIER)


def bindings_of_nodes() -> Iterator[JSON]:
    """Yield their bindings; that of ``system:node`` has no subjects.

    Kubelets get their rights from the node authorizer, which looks at the pods of the
    node.
    """
    yield binding("system:node", ())
    yield binding("system:node-proxier", [user("system:kube-proxy")])


_NODE: Final = (
    rule("create", "authentication.k8s.io", "tokenreviews"),
    rule(
        "create",
        "authorization.k8s.io",
        "localsubjectaccessreviews subjectaccessreviews",
    ),
    rule(READ, "core", "services"),
    rule(f"create {READ}", "core", "nodes"),
    rule("patch update", "core", "nodes/status"),
    rule("patch update", "core", "nodes"),
    rule("create patch update", "core", "events"),
    rule(READ, "core", "pods"),
    rule("create delete", "core", "pods"),
    rule("patch update", "core", "pods/status"),
    rule("create", "core", "pods/eviction"),
    rule(READ, "core", "configmaps secrets"),
    rule("get", "core", "persistentvolumeclaims persistentvolumes"),
    rule("get", "core", "endpoints"),
    _REQUESTS,
    rule("create delete get patch update", "coordination.k8s.io", "leases"),
    rule("get", "storage.k8s.io", "volumeattachments"),
    rule("create", "core", "serviceaccounts/token"),
    rule("get patch update", "core", "persistentvolumeclaims/status"),
    rule(READ, "storage.k8s.io", "csidrivers"),
    rule("create delete get patch update", "storage.k8s.io", "csinodes"),
    rule(READ, "node.k8s.io", "runtimeclasses"),
    rule("get", "resource.k8s.io", "resourceclaims"),
    rule("deletecollection", "resource.k8s.io", "resourceslices"),
    rule(READ, "certificates.k8s.io", "clustertrustbundles"),
    rule("get", "core", "serviceaccounts"),
)
_PROBLEM_DETECTOR: Final = (
    rule("get", "core", "nodes"),
    rule("patch", "core", "nodes/status"),
    RECORD_EVENTS,
)
_PROXIER: Final = (
    rule("list watch", "core", "endpoints services"),
    rule(READ, "core", "nodes"),
    RECORD_EVENTS,
    rule("list watch", "networking.k8s.io", "servicecidrs"),
    rule("list watch", "discovery.k8s.io", "endpointslices"),
)
