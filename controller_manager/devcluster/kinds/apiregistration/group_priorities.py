"""The priorities of the groups of Kubernetes: the order in which discovery lists them.

Upstream: the APIServices of pkg/controlplane/apiserver/aggregator.go.
"""

from types import MappingProxyType
from typing import Final

PRIORITIES: Final = MappingProxyType(
    {
        "": 18000,
        "apps": 17800,
        "events.k8s.io": 17750,
        "authentication.k8s.io": 17700,
        "authorization.k8s.io": 17600,
        "autoscaling": 17500,
        "batch": 17400,
        "certificates.k8s.io": 17300,
        "networking.k8s.io": 17200,
        "policy": 17100,
        "rbac.authorization.k8s.io": 17000,
        "storage.k8s.io": 16800,
        "apiextensions.k8s.io": 16700,
        "admissionregistration.k8s.io": 16700,
        "scheduling.k8s.io": 16600,
        "coordination.k8s.io": 16500,
        "node.k8s.io": 16300,
        "discovery.k8s.io": 16200,
        "flowcontrol.apiserver.k8s.io": 16100,
        "internal.apiserver.k8s.io": 16000,
        "resource.k8s.io": 15900,
        "storagemigration.k8s.io": 15800,
    }
)
"""The priorities of groups with an APIService."""

_AFTER_CORE: Final = 17900


def priority(group: str) -> int:
    """Return the priority of a group; the aggregator's own comes after the core."""
    return PRIORITIES.get(group, _AFTER_CORE)
