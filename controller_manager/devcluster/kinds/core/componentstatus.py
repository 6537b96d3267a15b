"""ComponentStatus: old clients list it; the list is always empty."""

from typing import ClassVar, Final

from controller_manager.devcluster.server.rest.kind import Kind
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import NAME, Column


class ComponentStatusStrategy(Strategy):
    """Has the columns of upstream, and no rows."""

    columns: ClassVar = (NAME, Column("Status"), Column("Message"), Column("Error"))


KIND: Final = Kind(
    "",
    "v1",
    "ComponentStatus",
    "componentstatuses",
    model="V1ComponentStatus",
    namespaced=False,
    short_names=("cs",),
    verbs=("get", "list"),
    strategy=ComponentStatusStrategy(),
    deprecation="v1 ComponentStatus is deprecated in v1.19+",
)
