"""Events of the core group and of events.k8s.io, which expire.

Upstream converts both to one type (pkg/apis/events/v1/conversion.go), and checks
more of what comes in the newer version (ValidateEventCreate of
pkg/apis/core/validation).
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.devcluster.apiserver.kind import Conversion
from controller_manager.devcluster.apiserver.objects import Call, RESTStorage
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.scheme.statuses import Cause, invalid, invalid_object
from controller_manager.devcluster.storage import Storage

from .kinds import kind_of


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


CORE_EVENTS: Final = kind_of(
    "v1/events",
    selectable_fields="""
        involvedObject.kind involvedObject.namespace involvedObject.name
        involvedObject.uid involvedObject.apiVersion involvedObject.resourceVersion
        involvedObject.fieldPath reason reportingComponent type source=source.component
        """,
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
    collection = storage.collection(CORE_EVENTS.resource)
    for stored in collection:
        metadata = stored.obj["metadata"]
        last = stored.obj.get("lastTimestamp") or metadata["creationTimestamp"]
        if parse_time(last) < before:
            collection.remove((metadata["namespace"], metadata["name"]))


_STORED_NAMES: Final = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_NAMES: Final = {stored: name for name, stored in _STORED_NAMES.items()}
_OMITTED: Final = ("reportingController", "reportingInstance")


def to_core(obj: JSON) -> JSON:
    """Return the fields of an event as the core group names them."""
    return {_STORED_NAMES.get(name, name): value for name, value in obj.items()}


def from_core(obj: JSON) -> JSON:
    """Return the fields of a stored event; Go omits some that are empty."""
    fields = {_NAMES.get(name, name): value for name, value in obj.items()}
    return {
        name: value for name, value in fields.items() if value or name not in _OMITTED
    }


def _several(count: int, field: str) -> Iterator[Cause]:
    if count < 2:
        yield invalid(field, '""', "should be at least 2")


def _known(type_: str, field: str) -> Iterator[Cause]:
    if type_ not in ("Normal", "Warning"):
        yield invalid(field, '""', f"has invalid value: {type_}")


def _unset(_: Any, field: str) -> Iterator[Cause]:
    yield invalid(field, '""', "needs to be unset")


EVENTS: Final = kind_of(
    "events.k8s.io/v1/events",
    CORE_EVENTS.strategy,
    # Rules see the stored form.
    new_rules="""
        series:
          count: several default 0
          lastObservedTime: required
        eventTime: required
        type: known default empty
        firstTimestamp, lastTimestamp, count, source: unset
        """,
    selectable_fields="""
        reason type
        regarding.kind=involvedObject.kind
        regarding.namespace=involvedObject.namespace
        regarding.name=involvedObject.name
        regarding.uid=involvedObject.uid
        regarding.apiVersion=involvedObject.apiVersion
        regarding.resourceVersion=involvedObject.resourceVersion
        regarding.fieldPath=involvedObject.fieldPath
        reportingController=reportingComponent
        """,
    conversion=Conversion(CORE_EVENTS, to_stored=to_core, from_stored=from_core),
)


def _refuse_old_form(call: Call, obj: JSON) -> None:
    """Raise Refusal for a new event in the form of the core group."""
    event = to_core(obj)
    metadata = {"namespace": call.namespace, **event.get("metadata", {})}
    causes = [
        *EVENTS.strategy.validate({**event, "metadata": metadata}),
        *EVENTS.strategy.validate_new(event),
    ]
    if causes:
        raise invalid_object("", CORE_EVENTS.kind, metadata.get("name", ""), causes)


REST_STORAGE: Final = RESTStorage(EVENTS.resource, create=_refuse_old_form)
