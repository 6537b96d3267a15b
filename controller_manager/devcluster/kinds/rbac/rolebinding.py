"""RoleBinding: grants a role in one namespace."""

from typing import Final

from controller_manager.devcluster.kinds.built_in import kind_of

from .bindings import BindingStrategy

KIND: Final = kind_of("rbac.authorization.k8s.io/v1", "rolebindings", BindingStrategy())
