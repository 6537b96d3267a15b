"""Role: permissions in a namespace."""

from typing import Final

from controller_manager.devcluster.kinds.built_in import kind_of

from .roles import RoleStrategy

KIND: Final = kind_of("rbac.authorization.k8s.io/v1", "roles", RoleStrategy())
