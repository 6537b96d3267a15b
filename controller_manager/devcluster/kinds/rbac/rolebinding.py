"""RoleBinding: grants a role in one namespace."""

from typing import Final

from controller_manager.devcluster.kinds.rbac.bindings import BindingStrategy
from controller_manager.devcluster.server.rest.kind import Kind

KIND: Final = Kind(
    "rbac.authorization.k8s.io",
    "v1",
    "RoleBinding",
    "rolebindings",
    model="V1RoleBinding",
    strategy=BindingStrategy(),
)
