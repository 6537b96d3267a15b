"""CSIDriver: the abilities and needs of a driver of volumes."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.core.volume_columns import UNSET
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    invalid,
    not_supported,
    shown,
)
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.field_values import IMMUTABLE

_GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
_MODES: Final = ("Persistent", "Ephemeral")
_MIN_PERIOD: Final = 10
_MIN_TOKEN: Final = 600
_MAX_TOKEN: Final = 1 << 32


class CSIDriverStrategy(Strategy):
    """The fields for attachments and lifecycle modes are immutable."""

    returns_deleted: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("AttachRequired", "boolean"),
        Column("PodInfoOnMount", "boolean"),
        Column("StorageCapacity", "boolean"),
        Column("TokenRequests"),
        Column("RequiresRepublish", "boolean"),
        Column("Modes"),
        AGE,
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the defaults: volumes need an attachment, other abilities are off."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("attachRequired", True)
        for name in (
            "podInfoOnMount",
            "requiresRepublish",
            "storageCapacity",
            "seLinuxMount",
        ):
            spec.setdefault(name, False)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        spec["volumeLifecycleModes"] = spec.get("volumeLifecycleModes") or [_MODES[0]]

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the policy, the tokens and the modes."""
        return list(_validate_spec(obj["spec"]))

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check the immutable fields; upstream calls one field by another name."""
        before, after = old["spec"], new["spec"]
        return [
            invalid(f"spec.{title}", shown(after[name]), IMMUTABLE)
            for name, title in (
                ("attachRequired", "attachedRequired"),
                ("volumeLifecycleModes", "volumeLifecycleModes"),
            )
            if before[name] != after[name]
        ]

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj["spec"]
        tokens = spec.get("tokenRequests")
        audiences = ",".join(each.get("audience", "") for each in tokens or ())
        return [
            name_of(obj),
            spec["attachRequired"],
            spec["podInfoOnMount"],
            spec["storageCapacity"],
            UNSET if tokens is None else audiences,
            spec["requiresRepublish"],
            ",".join(spec["volumeLifecycleModes"]) or NONE,
            age(obj, now),
        ]


def _validate_spec(spec: JSON) -> Iterator[Cause]:
    policy = spec["fsGroupPolicy"]
    if policy not in _GROUP_POLICIES:
        yield not_supported("spec.fsGroupPolicy", shown(policy), _GROUP_POLICIES)
    yield from _validate_tokens(spec.get("tokenRequests") or ())
    for mode in spec["volumeLifecycleModes"]:
        if mode not in _MODES:
            yield not_supported("spec.volumeLifecycleModes", shown(mode), _MODES)
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < _MIN_PERIOD:
        where = "spec.nodeAllocatableUpdatePeriodSeconds"
        why = "must be greater than or equal to 10 seconds"
        yield invalid(where, shown(period), why)


def _validate_tokens(tokens: Sequence[JSON]) -> Iterator[Cause]:
    audiences = set()
    for number, token in enumerate(tokens):
        where, audience = f"spec.tokenRequests[{number}]", token.get("audience", "")
        if audience in audiences:
            yield duplicate(f"{where}.audience", shown(audience))
            continue
        audiences.add(audience)
        seconds, where = token.get("expirationSeconds"), f"{where}.expirationSeconds"
        if seconds is not None and seconds < _MIN_TOKEN:
            why = "may not specify a duration less than 10 minutes"
            yield invalid(where, shown(seconds), why)
        if seconds is not None and seconds > _MAX_TOKEN:
            why = "may not specify a duration larger than 2^32 seconds"
            yield invalid(where, shown(seconds), why)


KIND: Final = kind_of("storage.k8s.io/v1", "csidrivers", CSIDriverStrategy())
