"""ClusterRole: permissions in all namespaces."""

from typing import ClassVar, Final

from controller_manager.devcluster.kinds.built_in import kind_of

from .role import RoleStrategy
from .validation import CLUSTER_ROLE


class ClusterRoleStrategy(RoleStrategy):
    """Rules may be for paths, and may be aggregated from other cluster roles."""

    rules: ClassVar = CLUSTER_ROLE


KIND: Final = kind_of(
    "rbac.authorization.k8s.io/v1", "clusterroles", ClusterRoleStrategy()
)
