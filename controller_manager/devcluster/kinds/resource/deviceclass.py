"""DeviceClass: devices that claims may ask for; no driver provides any."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import AGE, NAME, Cells, age


class DeviceClassStrategy(Strategy):
    """Stores a class as given."""

    counts_generations: ClassVar = True
    columns: ClassVar = (NAME, AGE)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), age(obj, now)]


KIND: Final = kind_of("resource.k8s.io/v1", "deviceclasses", DeviceClassStrategy())
