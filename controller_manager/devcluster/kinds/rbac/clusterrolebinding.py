"""ClusterRoleBinding: grants a role in all namespaces."""

from typing import ClassVar, Final

from controller_manager.devcluster.kinds.rbac.bindings import BindingStrategy
from controller_manager.devcluster.server.rest.kind import Kind


class ClusterRoleBindingStrategy(BindingStrategy):
    """It grants cluster roles only."""

    role_kinds: ClassVar = ("ClusterRole",)


KIND: Final = Kind(
    "rbac.authorization.k8s.io",
    "v1",
    "ClusterRoleBinding",
    "clusterrolebindings",
    namespaced=False,
    model="V1ClusterRoleBinding",
    strategy=ClusterRoleBindingStrategy(),
)
