"""VolumeAttachment: asks to attach a volume to a node."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.storage_validation import validate_driver_name
from controller_manager.devcluster.scheme.names import validate_subdomain
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    required,
    shown,
    too_long,
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

_ONE_SOURCE: Final = (
    "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
)
_MAX_METADATA: Final = 256 * 1024
_MAX_MESSAGE: Final = 1024


class VolumeAttachmentStrategy(Strategy):
    """The spec never changes; drivers write the status."""

    returns_deleted: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("Attacher"),
        Column("PV"),
        Column("Node"),
        Column("Attached", "boolean"),
        AGE,
    )

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the attacher, the source and the node."""
        spec = obj["spec"]
        return [
            *validate_driver_name(spec["attacher"], "spec.attacher"),
            *_validate_source(spec["source"]),
            *validate_subdomain(spec["nodeName"], "spec.nodeName"),
        ]

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the spec does not change."""
        if old["spec"] == new["spec"]:
            return []
        return [invalid("spec", shown(new["spec"]), IMMUTABLE)]

    def validate_status(self, obj: JSON) -> Sequence[Cause]:
        """Check the sizes of what a driver reports."""
        status, causes = obj["status"], []
        metadata = status.get("attachmentMetadata") or {}
        if sum(map(len, (*metadata, *metadata.values()))) > _MAX_METADATA:
            causes.append(too_long("status.attachmentMetadata", _MAX_METADATA))
        return causes + [
            too_long(f"status.{name}.message", _MAX_METADATA)
            for name in ("attachError", "detachError")
            if len((status.get(name) or {}).get("message", "")) > _MAX_MESSAGE
        ]

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj["spec"]
        return [
            name_of(obj),
            spec["attacher"],
            spec["source"].get("persistentVolumeName", ""),
            spec["nodeName"],
            obj["status"].get("attached", False),
            age(obj, now),
        ]


def _validate_source(source: JSON) -> list[Cause]:
    where, name = "spec.source", source.get("persistentVolumeName")
    inline = source.get("inlineVolumeSpec")
    if name is None and inline is None:
        return [required(where, _ONE_SOURCE)]
    if name is not None and inline is not None:
        return [forbidden_field(where, _ONE_SOURCE)]
    return validate_subdomain(name, f"{where}.persistentVolumeName") if name else []


KIND: Final = kind_of(
    "storage.k8s.io/v1", "volumeattachments", VolumeAttachmentStrategy()
)
