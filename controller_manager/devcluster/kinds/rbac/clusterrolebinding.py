"""ClusterRoleBinding: grants a role in all namespaces."""

from typing import ClassVar, Final

from controller_manager.devcluster.kinds.built_in import kind_of

from .bindings import BindingStrategy
from .validation import CLUSTER_ROLE_BINDING


class ClusterRoleBindingStrategy(BindingStrategy):
    """It grants cluster roles only."""

    rules: ClassVar = CLUSTER_ROLE_BINDING


KIND: Final = kind_of(
    "rbac.authorization.k8s.io/v1", "clusterrolebindings", ClusterRoleBindingStrategy()
)
