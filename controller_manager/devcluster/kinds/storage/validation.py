"""Checks that the classes of volumes share (pkg/apis/storage/validation)."""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.scheme.names import (
    validate_qualified_name,
)
from controller_manager.devcluster.scheme.statuses import Cause, required, too_long

_MOST_PARAMETERS: Final = 512
_LONGEST_PARAMETERS: Final = 256 * 1024


def validate_provisioner(name: str, field: str) -> list[Cause]:
    """Check the name of a provisioner, or of the driver of attributes."""
    if not name:
        return [required(field)]
    return validate_qualified_name(name.lower(), field)


def validate_parameters(parameters: Mapping[str, str], field: str) -> list[Cause]:
    """Check the number and the size of parameters."""
    if len(parameters) > _MOST_PARAMETERS:
        return [too_long(field, _MOST_PARAMETERS)]
    size = sum(len(key) + len(value) for key, value in parameters.items())
    if size > _LONGEST_PARAMETERS:
        return [too_long(field, _LONGEST_PARAMETERS)]
    return []
