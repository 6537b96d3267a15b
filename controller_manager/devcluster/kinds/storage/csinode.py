"""CSINode: the drivers of volumes that a node has."""

from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
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
from controller_manager.devcluster.validation.field_values import IMMUTABLE
from controller_manager.devcluster.validation.text import table

_LONGEST_NODE_ID: Final = 256


def _node_id(name: str, field: str) -> Iterator[Cause]:
    if len(name) > _LONGEST_NODE_ID:
        why = f"must be {_LONGEST_NODE_ID} characters or less"
        yield invalid(field, shown(name), why)


def _keys(driver: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check the keys of the topology; the causes are about the driver."""
    keys, where = driver["topologyKeys"] or (), path[:-1]
    for number, key in enumerate(keys):
        if not key:
            yield required(where)
        if key in keys[:number]:
            yield duplicate(where, shown(key))
        yield from validate_qualified_name(key, where)


def _fixed(driver: JSON) -> JSON:
    return {name: each for name, each in driver.items() if name != "allocatable"}


def _drivers(spec: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check that drivers are unchanged or removed."""
    before = {each["name"]: _fixed(each) for each in old["drivers"]}
    for each in spec["drivers"]:
        after = _fixed(each)
        if before.get(each["name"], after) != after:
            yield invalid(f"{path}drivers", shown(after), IMMUTABLE)


_RULES: Final = table(
    """
    spec:
      drivers[]:
        name: driver default empty
        nodeID: required
        nodeID: node_id
        allocatable:
          count: not-negative
        name: unique pointer
        hook keys
    """,
    _node_id,
    _keys,
)
_UPDATE: Final = table(
    """
    spec change:
      hook drivers
    """,
    _drivers,
)


class CSINodeStrategy(Strategy):
    """An update may change only the number of volumes of a driver."""

    returns_deleted: ClassVar = True
    rules: ClassVar = _RULES
    update_rules: ClassVar = _UPDATE
    columns: ClassVar = (NAME, Column("Drivers", "integer"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Go writes these fields also when they are empty."""
        spec = obj.setdefault("spec", {})
        spec["drivers"] = spec.get("drivers") or []

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), len(obj["spec"]["drivers"]), age(obj, now)]


KIND: Final = kind_of("storage.k8s.io/v1", "csinodes", CSINodeStrategy())
