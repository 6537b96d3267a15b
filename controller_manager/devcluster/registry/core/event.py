"""Event: a report of something that happened; it expires."""

from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.devcluster.apiserver import strategy
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation.text import table


def _namespace(event: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    """Check that an event is in the namespace of its involved object.

    Upstream does not for an event with an ``eventTime`` whose object has a namespace.
    """
    namespace = event["metadata"].get("namespace", "")
    involved = event.get("involvedObject", {}).get("namespace", "")
    others = ("default", "kube-system") if event.get("eventTime") else ("default",)
    if involved == namespace or (not involved and namespace in others):
        return
    if not (involved and event.get("eventTime")):
        detail = "does not match event.namespace"
        yield statuses.invalid(
            f"{path}involvedObject.namespace", statuses.shown(involved), detail
        )


def _reporter(name: str, field: str) -> list[statuses.Cause]:
    where = field.replace("Component", "Controller")
    missing = [] if name else [statuses.required(where)]
    return missing + validate_qualified_name(name, where)


def _texts(event: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    for name in ("reportingInstance", "action", "reason", "message"):
        text, most = event.get(name, ""), 1024 if name == "message" else 128
        if not text and name != "message":
            yield statuses.required(f"{path}{name}")
        if len(text) > most:
            why = f"can have at most {most} characters"
            yield statuses.invalid(f"{path}{name}", '""', why)


_EVENT: Final = table(
    """
    hook namespace
    when has eventTime:
      reportingComponent: reporter default empty
      hook texts
    """,
    _namespace,
    _reporter,
    _texts,
)


class EventStrategy(strategy.Strategy):
    """Reports are checked by upstream's rules for all events, old and new."""

    rules: ClassVar = _EVENT
    selectable_fields: ClassVar = {
        **strategy.fields_by_path(
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
    fallback_fields: ClassVar = {"source": ("reportingComponent",)}
    columns: ClassVar = (
        strategy.Column("Last Seen"),
        strategy.Column("Type"),
        strategy.Column("Reason"),
        strategy.Column("Object"),
        strategy.Column("Subobject", priority=1),
        strategy.Column("Source", priority=1),
        strategy.Column("Message"),
        strategy.Column("First Seen", priority=1),
        strategy.Column("Count", "integer", 1),
        strategy.Column("Name", priority=1),
    )

    def cells(self, obj: JSON, now: datetime) -> strategy.Cells:
        """Return the row of the table."""
        involved, series = obj.get("involvedObject", {}), obj.get("series")
        kind, name = involved.get("kind", "").lower(), involved.get("name", "")
        first = obj.get("firstTimestamp") or obj.get("eventTime")
        last, count = obj.get("lastTimestamp") or first, obj.get("count") or 1
        if series:
            last, count = series.get("lastObservedTime"), series.get("count", 0)
        return [
            _since(last, now),
            obj.get("type", ""),
            obj.get("reason", ""),
            f"{kind}/{name}" if name else kind,
            involved.get("fieldPath", ""),
            _source_text(obj),
            obj.get("message", "").strip(),
            _since(first, now),
            count,
            obj["metadata"]["name"],
        ]


def _since(time: str | None, now: datetime) -> str:
    if not time:
        return strategy.UNKNOWN
    return strategy.human_duration((now - parse_time(time)).total_seconds())


def _source_text(obj: JSON) -> str:
    """Return the component that reported an event, and its host."""
    source = obj.get("source", {})
    found = (
        source.get("component") or obj.get("reportingComponent", ""),
        source.get("host") or obj.get("reportingInstance", ""),
    )
    return ", ".join(found) if found[1] else found[0]


KIND: Final = kind_of("v1", "events", EventStrategy())


def expire_events(storage: Storage, before: datetime) -> None:
    """Delete the events that were last seen before a time."""
    collection = storage.collection(KIND.resource)
    for stored in collection:
        metadata = stored.obj["metadata"]
        last = stored.obj.get("lastTimestamp") or metadata["creationTimestamp"]
        if parse_time(last) < before:
            collection.remove((metadata["namespace"], metadata["name"]))
