"""RoleBinding: grants a role in one namespace."""

from typing import ClassVar, Final

from controller_manager.devcluster.kinds.built_in import kind_of

from .bindings import BindingStrategy
from .validation import ROLE_BINDING


class RoleBindingStrategy(BindingStrategy):
    """It grants roles of the namespace, and cluster roles in it."""

    rules: ClassVar = ROLE_BINDING


KIND: Final = kind_of(
    "rbac.authorization.k8s.io/v1", "rolebindings", RoleBindingStrategy()
)
