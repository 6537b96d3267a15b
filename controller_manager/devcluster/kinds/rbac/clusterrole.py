"""ClusterRole: permissions in all namespaces."""

from typing import Final

from controller_manager.devcluster.kinds.rbac.roles import RoleStrategy
from controller_manager.devcluster.server.kind import Kind

KIND: Final = Kind(
    "rbac.authorization.k8s.io",
    "v1",
    "ClusterRole",
    "clusterroles",
    namespaced=False,
    model="V1ClusterRole",
    strategy=RoleStrategy(),
)
