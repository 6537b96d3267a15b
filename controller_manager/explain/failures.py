"""Finds events that repeat a failure: their object is not in progress."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core.v1 import EVENTS
from controller_manager.api.json_objects import object_at
from controller_manager.api.scalars import parse_time

from .cause import (
    Cause,
    Item,
    Reference,
    State,
    last_spec_change,
    symptom,
    text_at,
    worst_of,
)
from .own_causes import explain_no_leader
from .target import KINDS
from .view import Event, View, event_of, events_of

_MANY: Final = 3
"""Failures that no single race explains."""

_LEAST: Final = timedelta(seconds=90)
_MOST: Final = timedelta(minutes=20)
"""The time for which a failure counts: a controller waits at most 1000 s to retry."""

_NEW_ATTEMPT: Final = timedelta(seconds=30)
"""The time after a change of the spec in which a failure may be about the spec before.

The count of an event does not tell them apart.
"""

_LEAVES: Final = 10
"""The most objects in a chain whose events are read."""

_OF_PROBES: Final = "Unhealthy"
_OF_OTHERS: Final = frozenset(("NodeNotReady",))
_STEPS: Final = frozenset(("Create", "Delete", "Update"))
"""The steps that controllers of pods tell apart: one fails, and others go on."""

_CIRCLES: Final = frozenset(("FailedDaemonPod", "RecreatingFailedPod"))
"""The failures after which a controller deletes a pod and creates the next one."""

_HAS_ROOM: Final = "QuotaHasRoom"
_BY_TIME: Final = frozenset(
    ("BackingOff", "MinReadySeconds", "NextRun", _HAS_ROOM, "Terminating")
)
"""The codes of causes that end by themselves, also after failures."""

_BY_CONTROLLER: Final = frozenset(
    (
        "ClaimPending",
        "JobRuns",
        "NextStep",
        "NodeGone",
        "NoReplicaSet",
        "NotPublished",
        "OwnerGone",
        "PodsMissing",
        "PodsSurplus",
        "RolloutWaits",
    )
)
"""The codes of causes that a controller ends, if one runs."""

_TELL_ALL: Final = frozenset(("HorizontalPodAutoscaler", "Namespace", "Node", "Pod"))
"""The kinds whose status says whether they are healthy, after any event."""


async def with_failures(
    view: View, item: Item, causes: Sequence[Cause]
) -> tuple[Cause, ...]:
    """Return causes of which none is in progress although its events repeat a failure.

    An object that seems healthy gets such a cause as well: its controller may fail to
    do what the object needs next.
    """
    state = worst_of(causes)
    if state is State.STUCK:
        return tuple(causes)
    if state is State.HEALTHY:
        if item.resource.kind in _TELL_ALL or not await _has_warnings(view, item):
            return tuple(causes)
        failure = await repeated_failure(view, item, is_hint=True)
        return (*([failure] if failure else []), *causes)
    search = _Search(view, item)
    found = [await search.deepened(each) for each in causes]
    if (
        worst_of(found) is not State.STUCK
        and search.is_apart
        and not any(map(_are_over, found))
    ):
        failure = await repeated_failure(view, item)
        if failure is not None:
            found[0] = symptom(found[0], [failure, *found[0].because])
    return tuple(found)


def _are_over(cause: Cause) -> bool:
    """Tell whether a cause says that the next attempt will not fail."""
    return cause.code == _HAS_ROOM or any(map(_are_over, cause.because))


class _Search:
    """A search for failures about the objects of causes, each object once."""

    def __init__(self, view: View, item: Item) -> None:
        self._view = view
        self._item = item
        self._known: dict[Reference, Cause | None] = {}

    @property
    def is_apart(self) -> bool:
        """Tell whether the explained object is not among those of the causes."""
        return self._item.reference not in self._known

    async def deepened(self, cause: Cause) -> Cause:
        """Return a cause with the failures that keep it from making progress."""
        if cause.state is not State.PROGRESSING or cause.code in _BY_TIME:
            return cause
        if cause.because:
            below = [await self.deepened(each) for each in cause.because]
            return symptom(replace(cause, because=()), below)
        failure = await self._failure(cause.object)
        if failure is None and cause.code in _BY_CONTROLLER:
            failure = await explain_no_leader(self._view)
        return symptom(replace(cause, remedy=""), [failure]) if failure else cause

    async def _failure(self, about: Reference) -> Cause | None:
        if about not in self._known:
            if len(self._known) >= _LEAVES:
                return None
            self._known[about] = None
            item = await self._item_of(about)
            if item is not None:
                self._known[about] = await repeated_failure(self._view, item)
        return self._known[about]

    async def _item_of(self, about: Reference) -> Item | None:
        if about == self._item.reference:
            return self._item
        for each in KINDS:
            if (each.api_version, each.kind) == (about.api_version, about.kind):
                return await self._view.find(each, about.namespace, about.name)
        return None


async def _has_warnings(view: View, item: Item) -> bool:
    """Tell whether events may repeat a failure about an object.

    The warnings of a namespace are read once for all its objects.
    """
    place, fields = item.namespace or "default", "type=Warning"
    found = await view.list(EVENTS, place, fields=fields, is_hint=True)
    if not view.is_whole(EVENTS, place, fields=fields):
        return True
    own = (
        event_of(each.json)
        for each in found
        if text_at(object_at(each.json, "involvedObject"), "uid") == item.uid
    )
    return sum(each.count for each in own) >= _MANY


async def repeated_failure(
    view: View, item: Item, *, is_hint: bool = False
) -> Cause | None:
    """Return the cause if events repeat a failure about an object.

    The failure must be one of the present spec, must still be repeated, and must not be
    followed by a success of the same component.
    """
    found = await events_of(view, item, is_hint=is_hint)
    for each in found:
        same = [one for one in found if _kind_of(one) == _kind_of(each)]
        if each is same[0] and _is_alive(view, item, same, found):
            return _failure(item, same)
    return None


def _kind_of(event: Event) -> tuple[bool, str, str]:
    return event.is_warning, event.source, event.reason


def _is_alive(
    view: View, item: Item, same: Sequence[Event], others: Sequence[Event]
) -> bool:
    """Tell whether events of one kind, the newest first, show a failure that lasts."""
    last = same[0]
    if not last.is_warning or last.reason == _OF_PROBES or last.reason in _OF_OTHERS:
        return False
    if not all(each.first for each in same) or sum(each.count for each in same) < _MANY:
        return False
    if any(each.at > last.at and _ends(each, last) for each in others):
        return False
    began = parse_time(min(each.first for each in same))
    end = parse_time(last.at)
    changed = last_spec_change(item)
    if changed and began < parse_time(changed):
        if end < parse_time(changed) + _NEW_ATTEMPT:
            return False
        began = parse_time(changed)
    # With a growing delay, the next failure comes after about the time of all before.
    patience = min(max(end - began, _LEAST), _MOST)
    return view.now - end <= patience


def _ends(event: Event, failure: Event) -> bool:
    """Tell whether an event is a success that ends the failures of its component."""
    if event.is_warning or event.source != failure.source:
        return False
    if failure.reason in _CIRCLES:
        return False
    step = failure.reason.removeprefix("Failed")
    return step not in _STEPS or event.reason == f"Successful{step}"


def _failure(item: Item, same: Sequence[Event]) -> Cause:
    last, count = same[0], sum(each.count for each in same)
    return item.cause(
        "FailsAgain",
        f"{last.source or 'its controller'} has failed {count} times: "
        f"{last.message.rstrip('.')}",
        f"event {last.reason}",
        min(each.first for each in same),
        remedy="correct what the message says; the component tries again",
    )
