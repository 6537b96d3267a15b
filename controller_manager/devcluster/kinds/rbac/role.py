"""Role: permissions in a namespace."""

from typing import ClassVar, Final

from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.scheme.names import validate_path_segment
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.server.rest.strategy import Strategy

from .validation import ROLE


class RoleStrategy(Strategy):
    """The name may be any segment of a path."""

    rules: ClassVar = ROLE

    def validate_name(self, name: str) -> list[Cause]:
        """Check the name of a new role."""
        return validate_path_segment(name, "metadata.name")


KIND: Final = kind_of("rbac.authorization.k8s.io/v1", "roles", RoleStrategy())
