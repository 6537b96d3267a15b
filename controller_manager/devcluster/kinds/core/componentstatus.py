"""ComponentStatus: listed for the sake of old clients, always empty."""

from typing import Final

from controller_manager.devcluster.server.kind import Kind

KIND: Final = Kind(
    "",
    "v1",
    "ComponentStatus",
    "componentstatuses",
    model="V1ComponentStatus",
    namespaced=False,
    short_names=("cs",),
    verbs=("get", "list"),
)
