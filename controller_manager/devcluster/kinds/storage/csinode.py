"""CSINode: the drivers of volumes that a node has."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.storage_validation import validate_driver_name
from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.field_values import (
    IMMUTABLE,
    NOT_NEGATIVE,
)

_MAX_NODE_ID: Final = 256


class CSINodeStrategy(Strategy):
    """An update may change only the number of volumes of a driver."""

    returns_deleted: ClassVar = True
    columns: ClassVar = (NAME, Column("Drivers", "integer"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Go writes these fields also when they are empty."""
        spec = obj.setdefault("spec", {})
        spec["drivers"] = spec.get("drivers") or []

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the drivers."""
        return list(_validate_drivers(obj["spec"]["drivers"]))

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that drivers are unchanged or removed."""
        before = {each["name"]: each for each in old["spec"]["drivers"]}
        return [
            invalid("spec.drivers", shown(_fixed(each)), IMMUTABLE)
            for each in new["spec"]["drivers"]
            if each["name"] in before and _fixed(before[each["name"]]) != _fixed(each)
        ]

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), len(obj["spec"]["drivers"]), age(obj, now)]


def _fixed(driver: JSON) -> JSON:
    return {name: each for name, each in driver.items() if name != "allocatable"}


def _validate_drivers(drivers: Sequence[JSON]) -> Iterator[Cause]:
    names = set()
    for number, driver in enumerate(drivers):
        where, name = f"spec.drivers[{number}]", driver["name"]
        yield from validate_driver_name(name, f"{where}.name")
        yield from _validate_node_id(driver["nodeID"], f"{where}.nodeID")
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None and count < 0:
            yield invalid(f"{where}.allocatable.count", shown(count), NOT_NEGATIVE)
        if name in names:
            yield duplicate(f"{where}.name", shown(name))
        names.add(name)
        yield from _validate_keys(driver["topologyKeys"] or (), where)


def _validate_node_id(node_id: str, field: str) -> Iterator[Cause]:
    if not node_id:
        yield required(field)
    if len(node_id) > _MAX_NODE_ID:
        yield invalid(
            field, shown(node_id), f"must be {_MAX_NODE_ID} characters or less"
        )


def _validate_keys(keys: Sequence[str], field: str) -> Iterator[Cause]:
    for number, key in enumerate(keys):
        if not key:
            yield required(field)
        if key in keys[:number]:
            yield duplicate(field, shown(key))
        yield from validate_qualified_name(key, field)


KIND: Final = kind_of("storage.k8s.io/v1", "csinodes", CSINodeStrategy())
