"""Event: a report of something that happened; it expires."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.api.times import parse_time
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.statuses import Cause, invalid, shown
from controller_manager.devcluster.server.storage import Storage
from controller_manager.devcluster.server.strategy import Strategy, fields_by_path
from controller_manager.devcluster.server.tables import Cells, Column, human_duration

JSON = dict[str, Any]


class EventStrategy(Strategy):
    """Writes every field of core/v1 events, empty ones too."""

    selectable_fields: ClassVar = {
        **fields_by_path(
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
        ),
        "source": ("source", "component"),
    }
    columns: ClassVar = (
        Column("Last Seen"),
        Column("Type"),
        Column("Reason"),
        Column("Object"),
        Column("Subobject", priority=1),
        Column("Source", priority=1),
        Column("Message"),
        Column("First Seen", priority=1),
        Column("Count", "integer", 1),
        Column("Name", priority=1),
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the fields that every event has."""
        obj.setdefault("source", {})
        obj.setdefault("firstTimestamp", None)
        obj.setdefault("lastTimestamp", None)
        obj.setdefault("eventTime", None)
        obj.setdefault("reportingComponent", "")
        obj.setdefault("reportingInstance", "")

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check that an event is in the namespace of its involved object."""
        namespace = obj["metadata"].get("namespace", "")
        involved = obj.get("involvedObject", {}).get("namespace", "")
        if involved == namespace or (not involved and namespace == "default"):
            return ()
        detail = "does not match event.namespace"
        return (invalid("involvedObject.namespace", shown(involved), detail),)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        involved = obj.get("involvedObject", {})
        last = obj.get("lastTimestamp") or obj["metadata"].get("creationTimestamp")
        seen = human_duration((now - parse_time(last)).total_seconds()) if last else ""
        return [
            seen,
            obj.get("type", ""),
            obj.get("reason", ""),
            f"{involved.get('kind', '').lower()}/{involved.get('name', '')}",
            involved.get("fieldPath", ""),
            obj.get("source", {}).get("component", ""),
            obj.get("message", "").strip(),
            seen,
            obj.get("count", 1),
            obj["metadata"]["name"],
        ]


KIND: Final = Kind(
    "",
    "v1",
    "Event",
    "events",
    model="CoreV1Event",
    short_names=("ev",),
    strategy=EventStrategy(),
)


def expire_events(storage: Storage, before: datetime) -> None:
    """Delete the events that were last seen before a time."""
    collection = storage.collection(KIND.resource)
    for stored in collection:
        metadata = stored.obj["metadata"]
        last = stored.obj.get("lastTimestamp") or metadata["creationTimestamp"]
        if parse_time(last) < before:
            collection.remove((metadata["namespace"], metadata["name"]))
