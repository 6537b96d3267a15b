"""DeviceTaintRule: an administrator's taints of devices, beside the driver's."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import NameAndAge
from controller_manager.devcluster.kinds.condition_validation import validate_conditions
from controller_manager.devcluster.scheme.statuses import Cause, too_many
from controller_manager.devcluster.server.storage.storage import Storage

from .device_validation import (
    fill_in_times,
    validate_device_name,
    validate_driver,
    validate_pool,
    validate_taint,
)

_MAX_CONDITIONS: Final = 8


class DeviceTaintRuleStrategy(NameAndAge):
    """Records since when the taint has its effect.

    See pkg/registry/resource/devicetaintrule.
    """

    counts_generations: ClassVar = True
    returns_deleted: ClassVar = True

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Record that the taint is added now, unless the rule says when."""
        del storage
        fill_in_times([obj["spec"]["taint"]], obj["metadata"]["creationTimestamp"])

    def stamp(self, old: JSON, new: JSON, now: datetime) -> None:
        """Record that a taint with another effect is added now."""
        before, after = (each["spec"]["taint"] for each in (old, new))
        fill_in_times([after], now)
        unchanged = before.get("timeAdded") == after["timeAdded"]
        if before["effect"] != after["effect"] and unchanged:
            after["timeAdded"] = format_time(now)

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the selector and the taint."""
        spec = obj["spec"]
        selector = spec.get("deviceSelector") or {}
        return [
            *_validate_selector(selector),
            *validate_taint(spec["taint"], "spec.taint"),
        ]

    def validate_status(self, obj: JSON) -> Sequence[Cause]:
        """Check the conditions."""
        conditions, field = obj["status"].get("conditions", ()), "status.conditions"
        causes = list(validate_conditions(conditions, field))
        if len(conditions) > _MAX_CONDITIONS:
            causes.append(too_many(field, len(conditions), _MAX_CONDITIONS))
        return causes


def _validate_selector(selector: JSON) -> Iterator[Cause]:
    checks = {
        "driver": validate_driver,
        "pool": validate_pool,
        "device": validate_device_name,
    }
    for name, check in checks.items():
        if name in selector:
            yield from check(selector[name], f"spec.deviceSelector.{name}")


KIND: Final = kind_of(
    "resource.k8s.io/v1beta2",
    "devicetaintrules",
    DeviceTaintRuleStrategy(),
    other_versions=("v1alpha3",),
)
