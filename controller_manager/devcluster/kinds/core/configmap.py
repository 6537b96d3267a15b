"""ConfigMap: configuration data of programs."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import data_count, name_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    shown,
    too_long,
)
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)

from .data_validation import LARGEST, size_of_base64, validate_immutable, validate_keys


class ConfigMapStrategy(Strategy):
    """May be immutable; shows the number of entries."""

    columns: ClassVar = (NAME, Column("Data"), AGE)

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the keys and the size."""
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        causes = []
        for key in data:
            causes += validate_keys((key,), "data")
            if key in binary:
                detail = "duplicate of key present in binaryData"
                causes.append(invalid(f"data[{key}]", shown(key), detail))
        causes += validate_keys(binary, "binaryData")
        size = sum(len(each.encode()) for each in data.values())
        size += sum(map(size_of_base64, binary.values()))
        if size > LARGEST:
            causes.append(too_long("[]", LARGEST))
        return causes

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that an immutable one does not change."""
        return validate_immutable(old, new, "data", "binaryData")

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), data_count(obj), age(obj, now)]


KIND: Final = kind_of("v1", "configmaps", ConfigMapStrategy())
