"""CSIStorageCapacity: how much storage of a class some nodes can get."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.core.volumes import UNSET
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import NAME, Cells, Column
from controller_manager.devcluster.validation.text import table

_RULES: Final = table(
    """
    nodeTopology: selector
    storageClassName: subdomain default empty
    capacity: quantity
    """
)


class CSIStorageCapacityStrategy(Strategy):
    """The topology and the class are immutable, the capacity is not."""

    rules: ClassVar = _RULES
    update_rules: ClassVar = table("nodeTopology, storageClassName: immutable")
    columns: ClassVar = (NAME, Column("StorageClassName"), Column("Capacity"))

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        del now
        return [name_of(obj), obj["storageClassName"], obj.get("capacity", UNSET)]


KIND: Final = kind_of(
    "storage.k8s.io/v1", "csistoragecapacities", CSIStorageCapacityStrategy()
)
