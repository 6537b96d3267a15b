"""The kinds in the recordings, and the paths of their objects."""

from typing import Final, NamedTuple


class _Kind(NamedTuple):
    """The API version of a kind, its plural, and whether it is namespaced."""

    api_version: str
    plural: str
    namespaced: bool = True


_KINDS: Final = {
    "CSIDriver": _Kind("storage.k8s.io/v1", "csidrivers", namespaced=False),
    "CSINode": _Kind("storage.k8s.io/v1", "csinodes", namespaced=False),
    "CSIStorageCapacity": _Kind("storage.k8s.io/v1", "csistoragecapacities"),
    "CertificateSigningRequest": _Kind(
        "certificates.k8s.io/v1", "certificatesigningrequests", namespaced=False
    ),
    "ClusterRole": _Kind(
        "rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False
    ),
    "ClusterRoleBinding": _Kind(
        "rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False
    ),
    "ConfigMap": _Kind("v1", "configmaps"),
    "ControllerRevision": _Kind("apps/v1", "controllerrevisions"),
    "CronJob": _Kind("batch/v1", "cronjobs"),
    "DaemonSet": _Kind("apps/v1", "daemonsets"),
    "Deployment": _Kind("apps/v1", "deployments"),
    "EndpointSlice": _Kind("discovery.k8s.io/v1", "endpointslices"),
    "Endpoints": _Kind("v1", "endpoints"),
    "Event": _Kind("v1", "events"),
    "HorizontalPodAutoscaler": _Kind("autoscaling/v2", "horizontalpodautoscalers"),
    "Job": _Kind("batch/v1", "jobs"),
    "Lease": _Kind("coordination.k8s.io/v1", "leases"),
    "Namespace": _Kind("v1", "namespaces", namespaced=False),
    "NetworkPolicy": _Kind("networking.k8s.io/v1", "networkpolicies"),
    "Node": _Kind("v1", "nodes", namespaced=False),
    "PersistentVolume": _Kind("v1", "persistentvolumes", namespaced=False),
    "PersistentVolumeClaim": _Kind("v1", "persistentvolumeclaims"),
    "Pod": _Kind("v1", "pods"),
    "PodDisruptionBudget": _Kind("policy/v1", "poddisruptionbudgets"),
    "PodGroup": _Kind("scheduling.k8s.io/v1alpha2", "podgroups"),
    "PriorityClass": _Kind("scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
    "ReplicaSet": _Kind("apps/v1", "replicasets"),
    "ReplicationController": _Kind("v1", "replicationcontrollers"),
    "ResourceClaim": _Kind("resource.k8s.io/v1", "resourceclaims"),
    "ResourceClaimTemplate": _Kind("resource.k8s.io/v1", "resourceclaimtemplates"),
    "ResourceQuota": _Kind("v1", "resourcequotas"),
    "Secret": _Kind("v1", "secrets"),
    "Service": _Kind("v1", "services"),
    "ServiceAccount": _Kind("v1", "serviceaccounts"),
    "StatefulSet": _Kind("apps/v1", "statefulsets"),
    "StorageClass": _Kind("storage.k8s.io/v1", "storageclasses", namespaced=False),
    "VolumeAttachment": _Kind(
        "storage.k8s.io/v1", "volumeattachments", namespaced=False
    ),
    "VolumeAttributesClass": _Kind(
        "storage.k8s.io/v1", "volumeattributesclasses", namespaced=False
    ),
    "Workload": _Kind("scheduling.k8s.io/v1alpha2", "workloads"),
}


def path_of(kind: str, namespace: str, name: str = "", subresource: str = "") -> str:
    """Return the path of objects of a kind, or of one of them.

    For the kind Namespace, `namespace` is the name. Raises KeyError for a kind without
    a path here.
    """
    if kind == "Namespace":
        return f"/api/v1/namespaces/{namespace}"
    found = _KINDS[kind]
    prefix = "/api" if found.api_version == "v1" else "/apis"
    base = f"{prefix}/{found.api_version}"
    if found.namespaced:
        base += f"/namespaces/{namespace}"
    return "/".join(part for part in (base, found.plural, name, subresource) if part)


def api_version_of(kind: str) -> str:
    """Return the API version of a kind; raises KeyError as `path_of` does."""
    return _KINDS[kind].api_version


def is_cluster_scoped(kind: str) -> bool:
    return not _KINDS[kind].namespaced
