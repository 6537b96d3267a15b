"""ResourceSlice: devices of a pool, as a driver publishes them."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.server.rest.strategy import Strategy, fields_by_path
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.server.storage import Storage
from controller_manager.devcluster.validation.text import table

from .device_validation import DEVICE_TAINT, fill_in_times, validate_pool

_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_PLACE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` "
    "is required"
)


def _one_place(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check that exactly one field says on which nodes the devices are."""
    given = [name for name in _PLACES if spec.get(name)]
    if not given:
        yield required(path[:-1], _ONE_PLACE)
    elif len(given) > 1:
        listed = ", ".join(f"`{name}`" for name in given)
        why = f"{_ONE_PLACE}, but multiple fields are set"
        yield invalid(path[:-1], shown(f"{{{listed}}}"), why)


def _special(spec: JSON, _: JSON) -> bool:
    devices = spec.get("devices", ())
    return any(each.get("taints") or each.get("consumesCounters") for each in devices)


_RULES: Final = table(
    """
    spec:
      driver: driver default empty
      pool always:
        name: pool default empty
        resourceSliceCount: at-least 1 default 0 "must be greater than zero"
        generation: not-negative "must be greater than or equal to zero"
      nodeName: subdomain
      hook one_place
      when special:
        devices: most 64
      else:
        devices: most 128
      devices[]:
        name: label default empty
        taints: most 16
        taints[]:
          include TAINT
        name: unique pointer at self
    """,
    validate_pool,
    _one_place,
    _special,
    TAINT=DEVICE_TAINT,
)
_UPDATE: Final = table(
    """
    spec change:
      pool change:
        name: immutable
      driver, nodeName: immutable
    """
)


class ResourceSliceStrategy(Strategy):
    """Checks where the devices are, and their taints (pkg/apis/resource)."""

    counts_generations: ClassVar = True
    returns_deleted: ClassVar = True
    rules: ClassVar = _RULES
    update_rules: ClassVar = _UPDATE
    columns: ClassVar = (NAME, Column("Node"), Column("Driver"), Column("Pool"), AGE)
    selectable_fields: ClassVar[Mapping[str, tuple[str, ...]]] = fields_by_path(
        "spec.driver", "spec.nodeName"
    )

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Record that taints are added now, unless they say when."""
        del storage
        _fill_in_times(obj, obj["metadata"]["creationTimestamp"])

    def stamp(self, old: JSON, new: JSON, now: datetime) -> None:
        """Record that taints are added now, unless they say when."""
        del old
        _fill_in_times(new, now)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj["spec"]
        node, pool = spec.get("nodeName", ""), spec["pool"]["name"]
        return [name_of(obj), node, spec["driver"], pool, age(obj, now)]


def _fill_in_times(obj: JSON, now: datetime | str) -> None:
    for device in obj["spec"].get("devices", ()):
        fill_in_times(device.get("taints", ()), now)


KIND: Final = kind_of("resource.k8s.io/v1", "resourceslices", ResourceSliceStrategy())
