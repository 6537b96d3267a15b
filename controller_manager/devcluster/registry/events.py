"""Event of events.k8s.io: the events of the core group, with other field names.

Upstream converts both to one type (pkg/apis/events/v1/conversion.go), and checks
more of what comes in this version (ValidateEventCreate of pkg/apis/core/validation).
"""

from collections.abc import Iterator
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Conversion
from controller_manager.devcluster.apiserver.objects import Call, RESTStorage
from controller_manager.devcluster.apiserver.strategy import fields_by_path
from controller_manager.devcluster.scheme.statuses import Cause, invalid, invalid_object

from .core.event import KIND as STORED
from .kinds import kind_of

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
    if type_ not in _TYPES:
        yield invalid(field, '""', f"has invalid value: {type_}")


def _unset(_: Any, field: str) -> Iterator[Cause]:
    yield invalid(field, '""', "needs to be unset")


EVENTS: Final = kind_of(
    "events.k8s.io/v1",
    "events",
    STORED.strategy,
    # Rules see the stored form.
    new_rules="""
        series:
          count: several default 0
          lastObservedTime: required
        eventTime: required
        type: known default empty
        firstTimestamp, lastTimestamp, count, source: unset
        """,
    selectable_fields={
        **fields_by_path("reason", "type"),
        **{
            f"regarding.{name}": ("involvedObject", name)
            for name in (
                *("kind", "namespace", "name", "uid"),
                *("apiVersion", "resourceVersion", "fieldPath"),
            )
        },
        "reportingController": ("reportingComponent",),
    },
    conversion=Conversion(STORED, to_stored=to_core, from_stored=from_core),
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
        raise invalid_object("", STORED.kind, metadata.get("name", ""), causes)


REST_STORAGE: Final = RESTStorage(EVENTS.resource, create=_refuse_old_form)
