"""ConfigMap: configuration data of programs."""

from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.columns import data_count, name_of
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import AGE, NAME, Cells, Column, age

JSON = dict[str, Any]


class ConfigMapStrategy(Strategy):
    """Shows the number of entries."""

    columns: ClassVar = (NAME, Column("Data"), AGE)
    messages: ClassVar = {
        "ConfigMap": {
            1: "metadata:ObjectMeta",
            2: "data:{}str",
            3: "binaryData:{}bytes",
            4: "immutable:bool",
        },
    }

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), data_count(obj), age(obj, now)]


KIND: Final = Kind(
    "",
    "v1",
    "ConfigMap",
    "configmaps",
    model="V1ConfigMap",
    short_names=("cm",),
    strategy=ConfigMapStrategy(),
)
