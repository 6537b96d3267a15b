"""ConfigMap: configuration data of programs."""

from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import data_count, name_of
from controller_manager.devcluster.scheme.names import validate_config_key
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
from controller_manager.devcluster.validation.text import table

from .data_validation import LARGEST, size_of_base64, validate_immutable


def _data(obj: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check the keys; none may be in the binary data, too."""
    for key in obj.get("data") or ():
        yield from validate_config_key(key, f"{path}data[{key}]")
        if key in (obj.get("binaryData") or {}):
            detail = "duplicate of key present in binaryData"
            yield invalid(f"{path}data[{key}]", shown(key), detail)


def _size(obj: JSON, _: str, __: JSON) -> Iterator[Cause]:
    size = sum(len(each.encode()) for each in (obj.get("data") or {}).values())
    size += sum(map(size_of_base64, (obj.get("binaryData") or {}).values()))
    if size > LARGEST:
        yield too_long("[]", LARGEST)


_CONFIG_MAP: Final = table(
    """
    hook data
    binaryData{}: config-key keys
    hook size
    """,
    _data,
    _size,
)
_UPDATE: Final = table("hook immutable", validate_immutable)


class ConfigMapStrategy(Strategy):
    """May be immutable; shows the number of entries."""

    rules: ClassVar = _CONFIG_MAP
    update_rules: ClassVar = _UPDATE
    columns: ClassVar = (NAME, Column("Data"), AGE)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), data_count(obj), age(obj, now)]


KIND: Final = kind_of("v1", "configmaps", ConfigMapStrategy())
