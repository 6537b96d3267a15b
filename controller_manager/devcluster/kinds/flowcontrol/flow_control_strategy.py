"""The strategy that flow schemas and priority levels share."""

from collections.abc import Sequence
from typing import ClassVar

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.server.rest.strategy import Strategy

from .flow_schema_validation import validate_types_of_conditions


class FlowControlStrategy(Strategy):
    """Counts generations, and checks the types of conditions."""

    counts_generations: ClassVar = True

    def validate_status(self, obj: JSON) -> Sequence[Cause]:
        """Check the types of the conditions."""
        return list(validate_types_of_conditions(obj["status"]))


def validate_fixed(name: str, spec: JSON, fixed: JSON, but: str = "") -> list[Cause]:
    """Check that the spec of a mandatory object is the one that it must have.

    `but` names the part that may differ.
    """
    if spec == fixed:
        return []
    why = f"spec of '{name}' {but}must equal the fixed value"
    return [invalid("spec", shown(spec), why)]
