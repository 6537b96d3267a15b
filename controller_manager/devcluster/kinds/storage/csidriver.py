"""CSIDriver: the abilities and needs of a driver of volumes."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.core.volumes import UNSET
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
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
from controller_manager.devcluster.validation.text import table

_MODES: Final = ("Persistent", "Ephemeral")
_MIN_TOKEN: Final = 600
_MAX_TOKEN: Final = 1 << 32


def _tokens(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check the seconds of each token, but not of one for a known audience."""
    audiences = set()
    for number, token in enumerate(spec.get("tokenRequests") or ()):
        at, audience = f"{path}tokenRequests[{number}]", token.get("audience", "")
        if audience in audiences:
            yield duplicate(f"{at}.audience", shown(audience))
            continue
        audiences.add(audience)
        yield from _TOKEN.errors(token, path=f"{at}.")


_TOKEN: Final = table(
    f"""
    expirationSeconds: at-least {_MIN_TOKEN}
      "may not specify a duration less than 10 minutes"
    expirationSeconds: at-most {_MAX_TOKEN}
      "may not specify a duration larger than 2^32 seconds"
    """
)


def _modes(modes: Sequence[str], field: str) -> Iterator[Cause]:
    for mode in modes:
        if mode not in _MODES:
            yield not_supported(field, shown(mode), _MODES)


def _attachment_changes(spec: JSON, old: JSON) -> bool:
    return bool(spec["attachRequired"] != old["attachRequired"])


_RULES: Final = table(
    """
    spec:
      fsGroupPolicy: enum File None ReadWriteOnceWithFSType
      hook tokens
      volumeLifecycleModes: modes
      nodeAllocatableUpdatePeriodSeconds: at-least 10
        "must be greater than or equal to 10 seconds"
    """,
    _tokens,
    _modes,
)
_UPDATE: Final = table(
    """
    spec change:
      attachRequired: invalid at attachedRequired if attachment_changes
        "field is immutable"
      volumeLifecycleModes: immutable
    """,
    _attachment_changes,
)
"""Upstream calls one field by another name."""


class CSIDriverStrategy(Strategy):
    """The fields for attachments and lifecycle modes are immutable."""

    returns_deleted: ClassVar = True
    rules: ClassVar = _RULES
    update_rules: ClassVar = _UPDATE
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


KIND: Final = kind_of("storage.k8s.io/v1", "csidrivers", CSIDriverStrategy())
