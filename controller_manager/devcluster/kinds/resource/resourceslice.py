"""ResourceSlice: devices of a pool, as a driver publishes them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.names import validate_subdomain
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    invalid,
    required,
    shown,
    too_many,
)
from controller_manager.devcluster.server.rest.strategy import Strategy, fields_by_path
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.server.storage.storage import Storage
from controller_manager.devcluster.validation.field_values import validate_unchanged

from .device_validation import (
    fill_in_times,
    validate_device_name,
    validate_driver,
    validate_pool,
    validate_taints,
)

_MAX_DEVICES: Final = 128
_MAX_TAINTED_DEVICES: Final = 64
_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_PLACE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` "
    "is required"
)


class ResourceSliceStrategy(Strategy):
    """Checks where the devices are, and their taints (pkg/apis/resource)."""

    counts_generations: ClassVar = True
    returns_deleted: ClassVar = True
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

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the pool, the node fields and the devices."""
        spec = obj["spec"]
        return [
            *validate_driver(spec["driver"], "spec.driver"),
            *_validate_pool(spec["pool"]),
            *_validate_places(spec),
            *_validate_devices(spec.get("devices", ())),
        ]

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the devices stay devices of their driver, pool and node."""
        before, after = old["spec"], new["spec"]
        return [
            *validate_unchanged(before["pool"], after["pool"], "spec.pool", "name"),
            *validate_unchanged(before, after, "spec", "driver", "nodeName"),
        ]

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj["spec"]
        node, pool = spec.get("nodeName", ""), spec["pool"]["name"]
        return [name_of(obj), node, spec["driver"], pool, age(obj, now)]


def _fill_in_times(obj: JSON, now: datetime | str) -> None:
    for device in obj["spec"].get("devices", ()):
        fill_in_times(device.get("taints", ()), now)


def _validate_pool(pool: JSON) -> Iterator[Cause]:
    yield from validate_pool(pool["name"], "spec.pool.name")
    if (count := pool["resourceSliceCount"]) <= 0:
        why = "must be greater than zero"
        yield invalid("spec.pool.resourceSliceCount", shown(count), why)
    if (generation := pool["generation"]) < 0:
        why = "must be greater than or equal to zero"
        yield invalid("spec.pool.generation", shown(generation), why)


def _validate_places(spec: JSON) -> Iterator[Cause]:
    """Check that exactly one field says on which nodes the devices are."""
    given = [name for name in _PLACES if spec.get(name)]
    if name := spec.get("nodeName"):
        yield from validate_subdomain(name, "spec.nodeName")
    if not given:
        yield required("spec", _ONE_PLACE)
    elif len(given) > 1:
        listed = ", ".join(f"`{name}`" for name in given)
        why = f"{_ONE_PLACE}, but multiple fields are set"
        yield invalid("spec", shown(f"{{{listed}}}"), why)


def _validate_devices(devices: Sequence[JSON]) -> Iterator[Cause]:
    special = any(
        each.get("taints") or each.get("consumesCounters") for each in devices
    )
    most = _MAX_TAINTED_DEVICES if special else _MAX_DEVICES
    if len(devices) > most:
        yield too_many("spec.devices", len(devices), most)
    names = set()
    for number, device in enumerate(devices):
        name, path = device.get("name", ""), f"spec.devices[{number}]"
        yield from validate_device_name(name, f"{path}.name")
        yield from validate_taints(device.get("taints", ()), f"{path}.taints")
        if name in names:
            yield duplicate(path, shown(name))
        names.add(name)


KIND: Final = kind_of("resource.k8s.io/v1", "resourceslices", ResourceSliceStrategy())
