"""StorageClass: the provisioner of volumes, and its parameters."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.core.volume_columns import UNSET
from controller_manager.devcluster.kinds.storage_validation import (
    validate_parameters,
    validate_provisioner,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
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

from .default_class import is_default

_POLICIES: Final = ("Delete", "Retain")
_MODES: Final = ("Immediate", "WaitForFirstConsumer")


class StorageClassStrategy(Strategy):
    """The provisioner and its parameters are immutable."""

    returns_deleted: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("Provisioner"),
        Column("ReclaimPolicy"),
        Column("VolumeBindingMode"),
        Column("AllowVolumeExpansion"),
        AGE,
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the reclaim policy and the binding mode."""
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the provisioner, the policy and the mode."""
        causes = validate_provisioner(obj.get("provisioner", ""), "provisioner")
        causes += validate_parameters(obj.get("parameters") or {}, "parameters")
        for field, supported in (
            ("reclaimPolicy", _POLICIES),
            ("volumeBindingMode", _MODES),
        ):
            if obj[field] not in supported:
                causes.append(not_supported(field, shown(obj[field]), supported))
        return causes

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that no field that provisioners read changes."""
        causes = []
        if old.get("parameters") != new.get("parameters"):
            causes.append(
                forbidden_field("parameters", "updates to parameters are forbidden.")
            )
        if old["provisioner"] != new.get("provisioner"):
            causes.append(
                forbidden_field("provisioner", "updates to provisioner are forbidden.")
            )
        causes += [
            invalid(field, shown(new[field]), "field is immutable")
            for field in ("reclaimPolicy", "volumeBindingMode")
            if old[field] != new[field]
        ]
        return causes

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table; the name says which class is the default."""
        default = " (default)" if is_default(obj) else ""
        expands = obj.get("allowVolumeExpansion", False)
        return [
            f"{name_of(obj)}{default}",
            obj.get("provisioner", ""),
            obj.get("reclaimPolicy", UNSET),
            obj.get("volumeBindingMode", UNSET),
            "true" if expands else "false",
            age(obj, now),
        ]


KIND: Final = kind_of("storage.k8s.io/v1", "storageclasses", StorageClassStrategy())
