"""ComponentStatus: old clients list it; the list is always empty."""

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
