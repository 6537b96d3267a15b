"""PersistentVolume: a piece of storage."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.server.storage import Storage

from .volume_columns import UNSET, access_modes, phase_of
from .volume_validation import VOLUME, VOLUME_UPDATE


class PersistentVolumeStrategy(Strategy):
    """The place of the storage is immutable."""

    returns_deleted: ClassVar = True
    rules: ClassVar = VOLUME
    update_rules: ClassVar = VOLUME_UPDATE
    columns: ClassVar = (
        NAME,
        Column("Capacity"),
        Column("Access Modes"),
        Column("Reclaim Policy"),
        Column("Status"),
        Column("Claim"),
        Column("StorageClass"),
        Column("VolumeAttributesClass"),
        Column("Reason"),
        AGE,
        Column("VolumeMode", priority=1),
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the reclaim policy, the volume mode and the phase."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        if "hostPath" in spec:
            spec["hostPath"].setdefault("type", "")
        obj.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Fill in the time at which the volume entered its phase."""
        del storage
        since = obj["metadata"]["creationTimestamp"]
        obj["status"]["lastPhaseTransitionTime"] = since

    def stamp(self, old: JSON, new: JSON, now: datetime) -> None:
        """Fill in the time at which the volume entered its phase, if it is absent."""
        before, after = old.get("status", {}), new["status"]
        since, name = before.get("lastPhaseTransitionTime"), "lastPhaseTransitionTime"
        if before.get("phase") == after.get("phase"):
            if since is not None:
                after.setdefault(name, since)
        elif after.get(name) in (None, since):
            after[name] = format_time(now)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj.get("spec", {})
        claim = spec.get("claimRef")
        return [
            name_of(obj),
            spec.get("capacity", {}).get("storage", "0"),
            access_modes(spec.get("accessModes", [])),
            spec.get("persistentVolumeReclaimPolicy", ""),
            phase_of(obj),
            f"{claim['namespace']}/{claim['name']}" if claim else "",
            spec.get("storageClassName", ""),
            spec.get("volumeAttributesClassName", UNSET),
            obj.get("status", {}).get("reason", ""),
            age(obj, now),
            spec.get("volumeMode", UNSET),
        ]


KIND: Final = kind_of("v1", "persistentvolumes", PersistentVolumeStrategy())
