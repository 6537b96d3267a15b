"""ClusterRoleBinding: grants a role in all namespaces."""

from typing import ClassVar, Final

from controller_manager.devcluster.kinds.built_in import kind_of

from .bindings import BindingStrategy


class ClusterRoleBindingStrategy(BindingStrategy):
    """It grants cluster roles only."""

    role_kinds: ClassVar = ("ClusterRole",)


KIND: Final = kind_of(
    "rbac.authorization.k8s.io/v1", "clusterrolebindings", ClusterRoleBindingStrategy()
)
