"""The events about an object, the newest first."""

from collections.abc import Collection

from msgspec import Struct

from controller_manager.api.core.v1 import EVENTS
from controller_manager.api.json_objects import JSON, object_at

from .items import Item, number_at, text_at
from .view import View


class Event(Struct, frozen=True):
    """An event: its reason, its message, and the time at which it was last seen.

    `field` names the part of the object, such as ``spec.containers{web}``. It was seen
    `count` times since `first`, by the component `source`.
    """

    reason: str
    message: str
    at: str
    field: str = ""
    is_warning: bool = False
    count: int = 1
    first: str = ""
    source: str = ""


async def events_of(
    view: View, item: Item, reasons: Collection[str] = (), *, is_hint: bool = False
) -> tuple[Event, ...]:
    """Return the events about an object with one of some reasons, the newest first.

    Without `reasons` all events are returned. Nothing is noted if a hint is unread.
    """
    fields = f"involvedObject.uid={item.uid}"
    place = item.namespace or "default"
    listed = await view.list(EVENTS, place, fields=fields, is_hint=is_hint)
    found = (event_of(each.json) for each in listed)
    wanted = [each for each in found if not reasons or each.reason in reasons]
    return tuple(sorted(wanted, key=lambda each: each.at, reverse=True))


def event_of(event: JSON) -> Event:
    """Return the event of an object of core/v1."""
    series = object_at(event, "series")
    times = (
        text_at(series, "lastObservedTime"),
        text_at(event, "lastTimestamp"),
        text_at(event, "eventTime"),
        text_at(object_at(event, "metadata"), "creationTimestamp"),
    )
    at = next((each for each in times if each), "")
    message = " ".join(text_at(event, "message").split())
    field = text_at(object_at(event, "involvedObject"), "fieldPath")
    begins = (text_at(event, "firstTimestamp"), text_at(event, "eventTime"), at)
    return Event(
        text_at(event, "reason"),
        message,
        at,
        field,
        is_warning=text_at(event, "type") == "Warning",
        count=max(number_at(series, "count"), number_at(event, "count"), 1),
        first=next(filter(None, begins), ""),
        source=text_at(object_at(event, "source"), "component")
        or text_at(event, "reportingComponent"),
    )
