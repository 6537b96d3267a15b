"""LimitRange: what containers of a namespace may ask for."""

from typing import Final

from controller_manager.devcluster.server.kind import Kind

KIND: Final = Kind(
    "", "v1", "LimitRange", "limitranges", model="V1LimitRange", short_names=("limits",)
)
