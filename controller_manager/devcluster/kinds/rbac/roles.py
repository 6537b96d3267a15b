"""Roles: messages and validation that both kinds share."""

from collections.abc import Sequence
from typing import ClassVar

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import validate_path_segment
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.server.rest.strategy import Strategy

from .validation import validate_rules


class RoleStrategy(Strategy):
    """The name may be any segment of a path."""

    is_namespaced: ClassVar[bool] = True
    """True for roles of one namespace, whose rules cannot be for paths."""

    def validate_name(self, name: str) -> list[Cause]:
        """Check the name of a new role."""
        return validate_path_segment(name, "metadata.name")

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the rules."""
        return list(validate_rules(obj, namespaced=self.is_namespaced))
