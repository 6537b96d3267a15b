"""The names of the controllers of kube-controller-manager 1.36.

Upstream: cmd/kube-controller-manager/names and app/controller_descriptor.go. The
registry compares them with this build to find the controllers that it lacks.
"""

from collections.abc import Mapping
from typing import Final

ALIASES: Final[Mapping[str, str]] = {
    "bootstrap-signer-controller": "bootstrapsigner",
    "certificatesigningrequest-approving-controller": "csrapproving",
    "certificatesigningrequest-cleaner-controller": "csrcleaner",
    "certificatesigningrequest-signing-controller": "csrsigning",
    "cloud-node-lifecycle-controller": "cloud-node-lifecycle",
    "clusterrole-aggregation-controller": "clusterrole-aggregation",
    "cronjob-controller": "cronjob",
    "daemonset-controller": "daemonset",
    "deployment-controller": "deployment",
    "device-taint-eviction-controller": "",
    "disruption-controller": "disruption",
    "endpoints-controller": "endpoint",
    "endpointslice-controller": "endpointslice",
    "endpointslice-mirroring-controller": "endpointslicemirroring",
    "ephemeral-volume-controller": "ephemeral-volume",
    "garbage-collector-controller": "garbagecollector",
    "horizontal-pod-autoscaler-controller": "horizontalpodautoscaling",
    "job-controller": "job",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller": "",
    "legacy-serviceaccount-token-cleaner-controller": (
        "legacy-service-account-token-cleaner"
    ),
    "namespace-controller": "namespace",
    "node-ipam-controller": "nodeipam",
    "node-lifecycle-controller": "nodelifecycle",
    "node-route-controller": "route",
    "persistentvolume-attach-detach-controller": "attachdetach",
    "persistentvolume-binder-controller": "persistentvolume-binder",
    "persistentvolume-expander-controller": "persistentvolume-expander",
    "persistentvolume-protection-controller": "pv-protection",
    "persistentvolumeclaim-protection-controller": "pvc-protection",
    "pod-garbage-collector-controller": "podgc",
    "podcertificaterequest-cleaner-controller": "",
    "podgroup-protection-controller": "",
    "replicaset-controller": "replicaset",
    "replicationcontroller-controller": "replicationcontroller",
    "resourceclaim-controller": "resource-claim-controller",
    "resourcepoolstatusrequest-controller": "",
    "resourcequota-controller": "resourcequota",
    "root-ca-certificate-publisher-controller": "root-ca-cert-publisher",
    "selinux-warning-controller": "",
    "service-cidr-controller": "",
    "service-lb-controller": "service",
    "serviceaccount-controller": "serviceaccount",
    "serviceaccount-token-controller": "serviceaccount-token",
    "statefulset-controller": "statefulset",
    "storage-version-migrator-controller": "svm",
    "storageversion-garbage-collector-controller": "storage-version-gc",
    "taint-eviction-controller": "",
    "token-cleaner-controller": "tokencleaner",
    "ttl-after-finished-controller": "ttl-after-finished",
    "ttl-controller": "ttl",
    "validatingadmissionpolicy-status-controller": "",
    "volumeattributesclass-protection-controller": "",
}
"""The alias of each controller, empty if it has none."""

OFF_BY_DEFAULT: Final = frozenset(
    (
        "bootstrap-signer-controller",
        "selinux-warning-controller",
        "token-cleaner-controller",
    )
)
"""The controllers that run only if they are named in ``--controllers``."""

CLOUD: Final = frozenset(
    (
        "cloud-node-lifecycle-controller",
        "node-route-controller",
        "service-lb-controller",
    )
)
"""The controllers of cloud providers.

Upstream has had no cloud provider since 1.31. It takes these names and never runs these
controllers; a cloud-controller-manager does.
"""

ON_BY_DEFAULT: Final = tuple(sorted(ALIASES.keys() - OFF_BY_DEFAULT - CLOUD))
"""The controllers that run with ``--controllers=*``."""
