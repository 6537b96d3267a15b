"""The events about an object, the newest first."""

from collections.abc import Collection

from msgspec import Struct

from controller_manager.api.core.v1 import EVENTS
from controller_manager.api.json_objects import JSON, object_at
from controller_manager.explain.items import Item, text_at
from controller_manager.explain.view import View


class Event(Struct, frozen=True):
    """An event: its reason, its message, and the time at which it was last seen.

    `field` names the part of the object, such as ``spec.containers{web}``.
    """

    reason: str
    message: str
    at: str
    field: str = ""


async def events_of(
    view: View, item: Item, reasons: Collection[str] = ()
) -> tuple[Event, ...]:
    """Return the events about an object with one of some reasons, the newest first.

    Without `reasons` all events are returned.
    """
    fields = f"involvedObject.uid={item.uid}"
    listed = await view.list(EVENTS, item.namespace or "default", fields=fields)
    found = (_event(each.json) for each in listed)
    wanted = [each for each in found if not reasons or each.reason in reasons]
    return tuple(sorted(wanted, key=lambda each: each.at, reverse=True))


def _event(event: JSON) -> Event:
    times = (
        text_at(object_at(event, "series"), "lastObservedTime"),
        text_at(event, "lastTimestamp"),
        text_at(event, "eventTime"),
        text_at(object_at(event, "metadata"), "creationTimestamp"),
    )
    at = next((each for each in times if each), "")
    message = " ".join(text_at(event, "message").split())
    field = text_at(object_at(event, "involvedObject"), "fieldPath")
    return Event(text_at(event, "reason"), message, at, field)
