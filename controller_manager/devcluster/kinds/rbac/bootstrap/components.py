"""Cluster roles for components other than controllers (clusterRoles of policy.go)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON

from .policy import (
    READ,
    READ_WRITE,
    RECORD_EVENTS,
    account,
    binding,
    cluster_role,
    group,
    paths,
    rule,
    user,
)

MANAGER: Final = "system:kube-controller-manager"
"""The user that kubeadm's controller-manager.conf names, and the name of its role."""

_SCHEDULER: Final = "system:kube-scheduler"
_ISSUER_DISCOVERY: Final = "system:service-account-issuer-discovery"
_SIGNING: Final = "system:certificates.k8s.io"
_REQUESTS: Final = f"{_SIGNING}:certificatesigningrequests"
_APPROVERS: Final = (
    "kube-apiserver-client",
    "kube-apiserver-client-kubelet",
    "kubelet-serving",
    "legacy-unknown",
)


def roles_of_components() -> Iterator[JSON]:
    """Yield the cluster roles of components of the control plane, and of add-ons."""
    yield cluster_role(MANAGER, _MANAGER_RULES)
    yield cluster_role(_SCHEDULER, _SCHEDULER_RULES)
    yield cluster_role("system:volume-scheduler", _VOLUME_SCHEDULER)
    yield cluster_role("system:auth-delegator", _REVIEWS)
    yield cluster_role(
        "system:cluster-trust-bundle-discovery",
        [rule(READ, "certificates.k8s.io", "clustertrustbundles")],
    )
    yield cluster_role("system:heapster", _HEAPSTER)
    yield cluster_role(
        "system:kube-aggregator", [rule(READ, "core", "endpoints services")]
    )
    yield cluster_role(
        "system:kube-dns", [rule("list watch", "core", "endpoints services")]
    )
    yield cluster_role("system:kubelet-api-admin", _KUBELET_API)
    yield cluster_role("system:persistent-volume-provisioner", _PROVISIONER)
    yield cluster_role(_ISSUER_DISCOVERY, [_DISCOVER_ISSUER])
    yield from _roles_about_certificates()


def _roles_about_certificates() -> Iterator[JSON]:
    for name in ("nodeclient", "selfnodeclient"):
        resource = f"certificatesigningrequests/{name}"
        created = rule("create", "certificates.k8s.io", resource)
        yield cluster_role(f"{_REQUESTS}:{name}", [created])
    for name in _APPROVERS:
        signer = f"kubernetes.io/{name}"
        approved = rule("approve", "certificates.k8s.io", "signers", signer)
        yield cluster_role(f"{_SIGNING}:{name}-approver", [approved])


def bindings_of_components() -> Iterator[JSON]:
    """Yield the bindings of the users and groups of components."""
    scheduler = [user(_SCHEDULER)]
    yield binding(MANAGER, [user(MANAGER)])
    yield binding("system:kube-dns", [account("kube-dns")])
    yield binding(_SCHEDULER, scheduler)
    yield binding("system:volume-scheduler", scheduler)
    yield binding(_ISSUER_DISCOVERY, [group("system:serviceaccounts")])


_REVIEWS: Final = (
    rule("create", "authentication.k8s.io", "tokenreviews"),
    rule("create", "authorization.k8s.io", "subjectaccessreviews"),
)
_MANAGER_RULES: Final = (
    RECORD_EVENTS,
    rule("create", "coordination.k8s.io", "leases"),
    rule("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
    rule("create", "core", "secrets serviceaccounts"),
    rule("delete", "core", "secrets"),
    rule("get", "core", "configmaps namespaces secrets serviceaccounts"),
    rule("update", "core", "secrets serviceaccounts"),
    *_REVIEWS,
    rule("list watch", "*", "*"),
    rule("create", "core", "serviceaccounts/token"),
)
_SCHEDULER_RULES: Final = (
    RECORD_EVENTS,
    rule("create", "coordination.k8s.io", "leases"),
    rule("get list update watch", "coordination.k8s.io", "leases", "kube-scheduler"),
    rule(READ_WRITE, "coordination.k8s.io", "leasecandidates"),
    rule(READ, "core", "nodes"),
    rule("delete get list watch", "core", "pods"),
    rule("create", "core", "bindings pods/binding"),
    rule("patch update", "core", "pods/status"),
    rule(READ, "core", "replicationcontrollers services"),
    rule(READ, "apps extensions", "replicasets"),
    rule(READ, "apps", "statefulsets"),
    rule(READ, "policy", "poddisruptionbudgets"),
    rule(READ, "core", "persistentvolumeclaims persistentvolumes"),
    *_REVIEWS,
    rule(READ, "storage.k8s.io", "csinodes"),
    rule(READ, "storage.k8s.io", "volumeattachments"),
    rule(READ, "core", "namespaces"),
    rule(READ, "storage.k8s.io", "csidrivers"),
    rule(READ, "storage.k8s.io", "csistoragecapacities"),
    rule(READ, "resource.k8s.io", "deviceclasses"),
    rule("get list patch update watch", "resource.k8s.io", "resourceclaims"),
    rule("get list patch update watch", "resource.k8s.io", "resourceclaims/status"),
    rule("get list patch update watch", "core", "pods/finalizers"),
    rule(READ, "resource.k8s.io", "resourceslices"),
    rule(READ, "resource.k8s.io", "devicetaintrules"),
)
_VOLUME_SCHEDULER: Final = (
    rule("get list patch update watch", "core", "persistentvolumes"),
    rule(READ, "storage.k8s.io", "storageclasses"),
    rule("get list patch update watch", "core", "persistentvolumeclaims"),
)
_HEAPSTER: Final = (
    rule(READ, "core", "events namespaces nodes pods"),
    rule(READ, "extensions", "deployments"),
)
_KUBELET_API: Final = (
    rule(READ, "core", "nodes"),
    rule("proxy", "core", "nodes"),
    rule("*", "core", "nodes/log nodes/metrics nodes/proxy nodes/stats"),
    rule("*", "core", "nodes/configz nodes/healthz nodes/pods"),
)
_PROVISIONER: Final = (
    rule("create delete get list watch", "core", "persistentvolumes"),
    rule("get list update watch", "core", "persistentvolumeclaims"),
    rule(READ, "storage.k8s.io", "storageclasses"),
    rule("watch", "core", "events"),
    RECORD_EVENTS,
)
_DISCOVER_ISSUER: Final = paths(
    "get",
    "/.well-known/openid-configuration /.well-known/openid-configuration/ "
    "/openid/v1/jwks /openid/v1/jwks/",
)
