"""DeviceTaintRule: an administrator's taints of devices, beside the driver's."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import NameAndAge
from controller_manager.devcluster.server.storage import Storage
from controller_manager.devcluster.validation.conditions import CONDITIONS
from controller_manager.devcluster.validation.text import table

from .device_validation import DEVICE_TAINT, fill_in_times, validate_pool

_RULES: Final = table(
    """
    spec:
      deviceSelector:
        driver: driver pointer
        pool: pool pointer
        device: label pointer
      taint always:
        include TAINT
    """,
    validate_pool,
    TAINT=DEVICE_TAINT,
)
_STATUS: Final = table(
    """
    status:
      include CONDITIONS
      conditions: most 8
    """,
    CONDITIONS=CONDITIONS,
)


class DeviceTaintRuleStrategy(NameAndAge):
    """Records since when the taint has its effect.

    See pkg/registry/resource/devicetaintrule.
    """

    counts_generations: ClassVar = True
    returns_deleted: ClassVar = True
    rules: ClassVar = _RULES
    status_rules: ClassVar = _STATUS

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


KIND: Final = kind_of(
    "resource.k8s.io/v1beta2",
    "devicetaintrules",
    DeviceTaintRuleStrategy(),
    other_versions=("v1alpha3",),
)
