"""LimitRange: limits for the requests of containers in a namespace."""

from typing import Final

from controller_manager.devcluster.server.kind import Kind

KIND: Final = Kind(
    "", "v1", "LimitRange", "limitranges", model="V1LimitRange", short_names=("limits",)
)
