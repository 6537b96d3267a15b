"""CSIStorageCapacity: how much storage of a class some nodes can get."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.core.volume_columns import UNSET
from controller_manager.devcluster.scheme.names import validate_subdomain
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import NAME, Cells, Column
from controller_manager.devcluster.validation.field_values import (
    IMMUTABLE,
    validate_quantity,
)
from controller_manager.devcluster.validation.label_selectors import validate_selector

_FIXED: Final = ("nodeTopology", "storageClassName")


class CSIStorageCapacityStrategy(Strategy):
    """The topology and the class are immutable, the capacity is not."""

    columns: ClassVar = (NAME, Column("StorageClassName"), Column("Capacity"))

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the topology, the class and the capacity."""
        causes = []
        if topology := obj.get("nodeTopology"):
            causes += validate_selector(topology, "nodeTopology")
        causes += validate_subdomain(obj["storageClassName"], "storageClassName")
        if (capacity := obj.get("capacity")) is not None:
            causes += validate_quantity(capacity, "capacity")
        return causes

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the topology and the class do not change."""
        return [
            invalid(name, shown(new.get(name)), IMMUTABLE)
            for name in _FIXED
            if old.get(name) != new.get(name)
        ]

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        del now
        return [name_of(obj), obj["storageClassName"], obj.get("capacity", UNSET)]


KIND: Final = kind_of(
    "storage.k8s.io/v1", "csistoragecapacities", CSIStorageCapacityStrategy()
)
