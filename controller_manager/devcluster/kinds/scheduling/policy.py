"""Validation of how a group of pods is scheduled."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)

_POLICIES: Final = ("basic", "gang")


def validate_scheduling_policy(policy: JSON, field: str) -> list[Cause]:
    """Check that there is one policy, and that a gang has a size."""
    given = [each for each in _POLICIES if each in policy]
    if len(given) == 1:
        if given == ["gang"] and policy["gang"].get("minCount", 0) < 1:
            why = "must be greater than zero"
            count = shown(policy["gang"].get("minCount", 0))
            return [invalid(f"{field}.gang.minCount", count, why)]
        return []
    listed = ", ".join(f"`{each}`" for each in _POLICIES)
    if not given:
        return [required(field, f"must specify one of: {listed}")]
    why = f"must specify exactly one of: {listed}"
    return [invalid(field, shown(policy), why)]
