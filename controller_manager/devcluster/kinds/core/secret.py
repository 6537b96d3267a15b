"""Secret: confidential data."""

import base64
from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.columns import data_count, name_of
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.strategy import Strategy, fields_by_path
from controller_manager.devcluster.server.tables import AGE, NAME, Cells, Column, age

JSON = dict[str, Any]


class SecretStrategy(Strategy):
    """Encodes ``stringData`` as base64 into ``data``."""

    selectable_fields: ClassVar = fields_by_path("type")
    columns: ClassVar = (NAME, Column("Type"), Column("Data"), AGE)
    messages: ClassVar = {
        "Secret": {
            1: "metadata:ObjectMeta",
            2: "data:{}bytes",
            3: "type:str",
            4: "stringData:{}str",
            5: "immutable:bool",
        },
    }

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the type, and encode ``stringData``."""
        obj.setdefault("type", "Opaque")
        if given := obj.pop("stringData", None):
            data = obj.setdefault("data", {})
            for key, value in given.items():
                data[key] = base64.b64encode(value.encode()).decode()

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), obj.get("type", ""), data_count(obj), age(obj, now)]


KIND: Final = Kind(
    "", "v1", "Secret", "secrets", model="V1Secret", strategy=SecretStrategy()
)
