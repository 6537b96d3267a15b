"""ComponentStatus: old clients list it; the list is always empty."""

from typing import ClassVar, Final

from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import NAME, Column


class ComponentStatusStrategy(Strategy):
    """Has the columns of upstream, and no rows."""

    columns: ClassVar = (NAME, Column("Status"), Column("Message"), Column("Error"))


KIND: Final = kind_of(
    "v1",
    "componentstatuses",
    ComponentStatusStrategy(),
    deprecation="v1 ComponentStatus is deprecated in v1.19+",
)
