"""Endpoints: the addresses behind a service."""

from typing import Final

from controller_manager.devcluster.server.kind import Kind

KIND: Final = Kind(
    "", "v1", "Endpoints", "endpoints", model="V1Endpoints", short_names=("ep",)
)
