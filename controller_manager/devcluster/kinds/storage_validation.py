"""Checks that the kinds of storage share (pkg/apis/storage/validation)."""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.scheme.names import (
    validate_qualified_name,
    validate_subdomain,
)
from controller_manager.devcluster.scheme.statuses import Cause, required, too_long

_MAX_DRIVER: Final = 63
_MAX_PARAMETERS: Final = 512
_MAX_PARAMETERS_SIZE: Final = 256 * 1024


def validate_driver_name(name: str, field: str) -> list[Cause]:
    """Check the name of a CSI driver: a subdomain in lower or upper case."""
    if not name:
        return [required(field)]
    causes = []
    if len(name) > _MAX_DRIVER:
        causes.append(too_long(field, _MAX_DRIVER))
    return causes + validate_subdomain(name.lower(), field)


def validate_provisioner(name: str, field: str) -> list[Cause]:
    """Check the name of a provisioner, or of the driver of attributes."""
    if not name:
        return [required(field)]
    return validate_qualified_name(name.lower(), field)


def validate_parameters(parameters: Mapping[str, str], field: str) -> list[Cause]:
    """Check the number and the size of parameters."""
    if len(parameters) > _MAX_PARAMETERS:
        return [too_long(field, _MAX_PARAMETERS)]
    size = sum(len(key) + len(value) for key, value in parameters.items())
    if size > _MAX_PARAMETERS_SIZE:
        return [too_long(field, _MAX_PARAMETERS_SIZE)]
    return []
