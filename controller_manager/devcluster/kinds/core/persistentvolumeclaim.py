"""PersistentVolumeClaim: a request for a volume."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.claim_defaults import default_claim
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.server.storage import Storage
from controller_manager.devcluster.validation.rules import nested

from .claim_validation import (
    CLAIM_SPEC,
    CLAIM_STATUS,
    validate_claim_update,
)
from .data_sources import fill_in_data_sources
from .volume_columns import UNSET, access_modes, phase_of


class PersistentVolumeClaimStrategy(Strategy):
    """The spec is immutable, except for a larger size and fields that are set once."""

    returns_deleted: ClassVar = True
    rules: ClassVar = nested("spec", [CLAIM_SPEC])
    status_rules: ClassVar = CLAIM_STATUS
    columns: ClassVar = (
        NAME,
        Column("Status"),
        Column("Volume"),
        Column("Capacity"),
        Column("Access Modes"),
        Column("StorageClass"),
        Column("VolumeAttributesClass"),
        AGE,
        Column("VolumeMode", priority=1),
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the volume mode and the phase."""
        default_claim(obj)

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Fill in both fields for the source of the data."""
        del storage
        fill_in_data_sources(obj["spec"])

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the spec changes only where it may."""
        return validate_claim_update(old, new)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table; a bound claim has a size and access modes."""
        spec, status = obj.get("spec", {}), obj.get("status", {})
        volume = spec.get("volumeName", "")
        return [
            name_of(obj),
            phase_of(obj),
            volume,
            status.get("capacity", {}).get("storage", "0") if volume else "",
            access_modes(status.get("accessModes", [])) if volume else "",
            spec.get("storageClassName", ""),
            spec.get("volumeAttributesClassName", UNSET),
            age(obj, now),
            spec.get("volumeMode", UNSET),
        ]


KIND: Final = kind_of("v1", "persistentvolumeclaims", PersistentVolumeClaimStrategy())
