"""VolumeAttachment: asks to attach a volume to a node."""

from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import Cause, too_long
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.text import table

_MAX_METADATA: Final = 256 * 1024
_MAX_MESSAGE: Final = 1024


def _sizes(status: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check the sizes of what a driver reports."""
    metadata = status.get("attachmentMetadata") or {}
    if sum(map(len, (*metadata, *metadata.values()))) > _MAX_METADATA:
        yield too_long(f"{path}attachmentMetadata", _MAX_METADATA)
    for name in ("attachError", "detachError"):
        # Upstream names the other limit.
        if len((status.get(name) or {}).get("message", "")) > _MAX_MESSAGE:
            yield too_long(f"{path}{name}.message", _MAX_METADATA)


_RULES: Final = table(
    """
    spec:
      attacher: driver default empty
      source always:
        when lacks inlineVolumeSpec persistentVolumeName:
          persistentVolumeName: required at self
            "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        persistentVolumeName: forbidden at self if has inlineVolumeSpec
          "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        persistentVolumeName: subdomain if lacks inlineVolumeSpec
      nodeName: subdomain default empty
    """
)
_STATUS: Final = table(
    """
    status:
      hook sizes
    """,
    _sizes,
)


class VolumeAttachmentStrategy(Strategy):
    """The spec never changes; drivers write the status."""

    returns_deleted: ClassVar = True
    rules: ClassVar = _RULES
    update_rules: ClassVar = table("spec: immutable")
    status_rules: ClassVar = _STATUS
    columns: ClassVar = (
        NAME,
        Column("Attacher"),
        Column("PV"),
        Column("Node"),
        Column("Attached", "boolean"),
        AGE,
    )

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


KIND: Final = kind_of(
    "storage.k8s.io/v1", "volumeattachments", VolumeAttachmentStrategy()
)
