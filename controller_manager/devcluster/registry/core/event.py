"""Event: a report of something that happened; it expires."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.devcluster.apiserver.strategy import fields_by_path
from controller_manager.devcluster.registry.kinds import kind_of
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.storage import Storage


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


def _last_seen(event: JSON) -> str | None:
    if series := event.get("series"):
        found: str | None = series.get("lastObservedTime")
        return found
    return event.get("lastTimestamp") or _first_seen(event)


def _first_seen(event: JSON) -> str | None:
    return event.get("firstTimestamp") or event.get("eventTime")


def _object(event: JSON) -> str:
    involved = event.get("involvedObject", {})
    kind, name = involved.get("kind", "").lower(), involved.get("name", "")
    return f"{kind}/{name}" if name else kind


def _message(event: JSON) -> str:
    return str(event.get("message", "")).strip()


def _count(event: JSON) -> int:
    series = event.get("series")
    return series.get("count", 0) if series else event.get("count") or 1


def _source(obj: JSON) -> str:
    source = obj.get("source", {})
    found = (
        source.get("component") or obj.get("reportingComponent", ""),
        source.get("host") or obj.get("reportingInstance", ""),
    )
    return ", ".join(found) if found[1] else found[0]


KIND: Final = kind_of(
    "v1",
    "events",
    selectable_fields={
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
    },
    fallback_fields={"source": ("reportingComponent",)},
    rules="""
        hook namespace
        when has eventTime:
          reportingComponent: reporter default empty
          hook texts
        """,
    printer="""
        Last Seen: since last_seen or <unknown>
        Type: .type
        Reason: .reason
        Object: object
        Subobject wide: .involvedObject.fieldPath
        Source wide: source
        Message: message
        First Seen wide: since first_seen or <unknown>
        Count integer wide: count
        Name wide: .metadata.name
        """,
)


def expire_events(storage: Storage, before: datetime) -> None:
    """Delete the events that were last seen before a time."""
    collection = storage.collection(KIND.resource)
    for stored in collection:
        metadata = stored.obj["metadata"]
        last = stored.obj.get("lastTimestamp") or metadata["creationTimestamp"]
        if parse_time(last) < before:
            collection.remove((metadata["namespace"], metadata["name"]))
