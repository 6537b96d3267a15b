"""Event of events.k8s.io: the events of the core group, with other field names.

Upstream converts both to one type (pkg/apis/events/v1/conversion.go), and checks
more of what comes in this version (ValidateEventCreate of pkg/apis/core/validation).
"""

from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Conversion
from controller_manager.devcluster.apiserver.objects import Call, RESTStorage
from controller_manager.devcluster.apiserver.strategy import Cells, fields_by_path
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.core.event import KIND as STORED
from controller_manager.devcluster.registry.core.event import EventStrategy
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    invalid_object,
    required,
)

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
_TYPES: Final = ("Normal", "Warning")
_UNSET: Final = "needs to be unset"


def to_core(obj: JSON) -> JSON:
    """Return the fields of an event as the core group names them."""
    return {_STORED_NAMES.get(name, name): value for name, value in obj.items()}


def from_core(obj: JSON) -> JSON:
    """Return the fields of a stored event; Go omits some that are empty."""
    fields = {_NAMES.get(name, name): value for name, value in obj.items()}
    return {
        name: value for name, value in fields.items() if value or name not in _OMITTED
    }


class NewEventStrategy(EventStrategy):
    """Takes only events as recorders of this version write them."""

    selectable_fields: ClassVar = {
        **fields_by_path("reason", "type"),
        **{
            f"regarding.{name}": ("involvedObject", name)
            for name in (
                *("kind", "namespace", "name", "uid"),
                *("apiVersion", "resourceVersion", "fieldPath"),
            )
        },
        "reportingController": ("reportingComponent",),
    }

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table, which is that of the core group."""
        return super().cells(to_core(obj), now)


def _validate_new(event: JSON) -> Iterator[Cause]:
    if (series := event.get("series")) is not None:
        if series.get("count", 0) < 2:
            yield invalid("series.count", '""', "should be at least 2")
        if not series.get("lastObservedTime"):
            yield required("series.lastObservedTime")
    if not event.get("eventTime"):
        yield required("eventTime")
    if (kind := event.get("type", "")) not in _TYPES:
        yield invalid("type", '""', f"has invalid value: {kind}")
    for name in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if event.get(name):
            yield invalid(name, '""', _UNSET)


KIND: Final = kind_of(
    "events.k8s.io/v1",
    "events",
    NewEventStrategy(),
    conversion=Conversion(STORED, to_stored=to_core, from_stored=from_core),
)


def refuse_old_form(call: Call, obj: JSON) -> None:
    """Raise Refusal for a new event in the form of the core group."""
    event = to_core(obj)
    metadata = {"namespace": call.namespace, **event.get("metadata", {})}
    causes = [
        *KIND.strategy.validate({**event, "metadata": metadata}),
        *_validate_new(event),
    ]
    if causes:
        raise invalid_object("", STORED.kind, metadata.get("name", ""), causes)


REST_STORAGE: Final = RESTStorage(KIND.resource, create=refuse_old_form)
