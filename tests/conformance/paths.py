"""The paths of the kinds in the recordings."""

from typing import Final

_NAMESPACED: Final = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Event": "/api/v1/namespaces/{}/events",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ReplicationController": "/api/v1/namespaces/{}/replicationcontrollers",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
}
_CLUSTER_SCOPED: Final = {"Node": "/api/v1/nodes"}


def path_of(kind: str, namespace: str, name: str = "", subresource: str = "") -> str:
    """Return the path of objects of a kind, or of one of them.

    For the kind Namespace, `namespace` is the name. Raises KeyError for a kind without
    a path here.
    """
    if kind == "Namespace":
        return f"/api/v1/namespaces/{namespace}"
    base = _CLUSTER_SCOPED.get(kind) or _NAMESPACED[kind].format(namespace)
    return "/".join(part for part in (base, name, subresource) if part)


def is_cluster_scoped(kind: str) -> bool:
    """Tell whether a kind is cluster-scoped."""
    return kind in _CLUSTER_SCOPED
