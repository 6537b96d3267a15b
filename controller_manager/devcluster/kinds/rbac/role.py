"""Role: permissions in a namespace."""

from typing import Final

from controller_manager.devcluster.kinds.rbac.roles import RoleStrategy
from controller_manager.devcluster.server.rest.kind import Kind

KIND: Final = Kind(
    "rbac.authorization.k8s.io",
    "v1",
    "Role",
    "roles",
    model="V1Role",
    strategy=RoleStrategy(),
)
