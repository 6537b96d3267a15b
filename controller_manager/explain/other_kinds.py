"""Explains objects of kinds that have no explanation of their own.

A custom resource tells by the usual fields how it is: ``observedGeneration``,
conditions and ``phase``. It is at least as stuck as the workloads that it controls.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

from controller_manager.api.json_objects import JSON, objects_at
from controller_manager.api.meta import AnyResource

from .cause import (
    Cause,
    Item,
    State,
    last_change,
    number_at,
    symptom,
    text_at,
    worst_of,
)
from .own_causes import finalizers_of, message_of
from .target import KINDS
from .view import View

_Explain = Callable[[View, Item], Awaitable[tuple[Cause, ...]]]

_PATIENCE: Final = timedelta(seconds=60)
"""The time in which a controller acts on a change."""

_GOOD: Final = frozenset(
    (
        "Accepted",
        "Available",
        "Established",
        "Healthy",
        "NamesAccepted",
        "Programmed",
        "Ready",
        "Succeeded",
        "Synced",
    )
)
"""The conditions that are true if all is well."""

_BAD: Final = frozenset(("Degraded", "Failed", "Stalled"))
_MOVING: Final = frozenset(("Progressing", "Reconciling"))
_FAILED: Final = frozenset(("Error", "Failed"))


async def explain_other(view: View, item: Item, explain: _Explain) -> tuple[Cause, ...]:
    """Return the causes that any object may show; `explain` explains other objects."""
    return (
        *_not_observed(view, item),
        *_conditions(view, item),
        *await _controlled(view, item, explain),
        *await _owner(view, item),
        *_finalizers(item),
    )


def _log(item: Item) -> str:
    group = item.resource.group or item.resource.kind
    return f"look at the log of the controller of {group}"


def _not_observed(view: View, item: Item) -> tuple[Cause, ...]:
    generation = number_at(item.metadata, "generation")
    if number_at(item.status, "observedGeneration", generation) >= generation:
        return ()
    since = last_change(item) or item.created_at
    is_new = view.age(since) < _PATIENCE
    return (
        item.cause(
            "NotObserved" if is_new else "ControllerAbsent",
            "its controller has not seen the newest spec",
            "status.observedGeneration",
            since,
            remedy="" if is_new else _log(item),
            state=State.PROGRESSING if is_new else State.STUCK,
        ),
    )


def _conditions(view: View, item: Item) -> tuple[Cause, ...]:
    """Return a cause for each condition, or phase, that says that something is wrong.

    One that has just changed, or that another contradicts, is a step on the way.
    """
    is_moving = any(
        text_at(each, "type") in _MOVING and each.get("status") == "True"
        for each in item.conditions()
    )
    found = [
        _of_condition(view, item, each, is_moving=is_moving)
        for each in item.conditions()
        if _is_bad(each)
    ]
    phase = text_at(item.status, "phase")
    if phase in _FAILED:
        message = text_at(item.status, "message") or text_at(item.status, "reason")
        what = f"its phase is {phase}" + (f": {message}" if message else "")
        found.append(_says(item, "status.phase", what.rstrip("."), item.created_at))
    return tuple(found)


def _is_bad(condition: JSON) -> bool:
    name, status = text_at(condition, "type"), text_at(condition, "status")
    return (name in _GOOD and status not in ("", "True")) or (
        name in _BAD and status == "True"
    )


def _of_condition(view: View, item: Item, condition: JSON, *, is_moving: bool) -> Cause:
    name, since = text_at(condition, "type"), text_at(condition, "lastTransitionTime")
    is_new = bool(since) and view.age(since) < _PATIENCE
    is_step = name in _GOOD and (is_moving or is_new)
    why = message_of(condition) or text_at(condition, "reason")
    what = f"the condition {name} is {text_at(condition, 'status')}"
    what += f": {why}" if why else ""
    state = State.PROGRESSING if is_step else State.STUCK
    return _says(item, f"status.conditions[{name}]", what, since, state)


def _says(
    item: Item, field: str, what: str, since: str, state: State = State.STUCK
) -> Cause:
    return item.cause(
        "StatusSaysSo",
        what,
        field,
        since,
        remedy=_log(item) if state is State.STUCK else "",
        state=state,
    )


async def _controlled(view: View, item: Item, explain: _Explain) -> tuple[Cause, ...]:
    """Return a cause for each object of a known kind that a custom resource controls.

    Other APIs than those of Kubernetes have domains without ``k8s.io``.
    """
    group = item.resource.group
    if "." not in group or group.endswith(".k8s.io"):
        return ()
    found: list[Cause] = []
    for resource in KINDS:
        for each in await view.list(resource, item.namespace):
            if not each.is_controlled_by(item):
                continue
            causes = await explain(view, each)
            if worst_of(causes) is State.HEALTHY:
                continue
            what = f"it controls {each.resource.kind} {each.name}, which is not as its "
            cause = each.cause(
                "DependentWaits",
                what + "spec wants it",
                "status",
                each.created_at,
                state=State.PROGRESSING,
            )
            found.append(symptom(cause, causes))
    return tuple(found)


async def _owner(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the remark about the owner, or the cause if all owners are gone."""
    owners = list(objects_at(item.metadata, "ownerReferences"))
    if not owners:
        return ()
    if await _are_gone(view, item, owners):
        names = ", ".join(map(_name, owners))
        return (
            item.cause(
                "OwnerGone",
                f"its owner, {names}, does not exist: the garbage collector "
                "deletes the object",
                "metadata.ownerReferences",
                item.created_at,
                remedy="if it stays so, see that the garbage collector runs",
                state=State.PROGRESSING,
            ),
        )
    first = item.controller or owners[0]
    return (
        item.cause(
            "HasOwner",
            f"{_name(first)} {'controls' if first.get('controller') else 'owns'} "
            "it: a change by hand may be undone, and it goes with its owner",
            "metadata.ownerReferences",
            item.created_at,
            state=State.HEALTHY,
        ),
    )


def _name(owner: JSON) -> str:
    return f"{text_at(owner, 'kind')} {text_at(owner, 'name')}"


async def _are_gone(view: View, item: Item, owners: Sequence[JSON]) -> bool:
    """Tell whether the server says that no owner exists; an unknown kind may exist."""
    for each in owners:
        resource = await _resource(view, each)
        if resource is None:
            return False
        place, name = item.namespace, text_at(each, "name")
        found = await view.find(resource, place if resource.namespaced else "", name)
        if found is None:
            place = place if resource.namespaced else ""
            if not await view.is_missing(resource, place, name):
                return False
        elif found.uid == text_at(each, "uid"):
            return False
    return True


async def _resource(view: View, owner: JSON) -> AnyResource | None:
    """Return the resource of an owner; its version may be another one."""
    group = text_at(owner, "apiVersion").rpartition("/")[0]
    kind = text_at(owner, "kind")
    for known in KINDS:
        if (known.group, known.kind) == (group, kind):
            return known
    for each in (await view.discovery()).preferred("get"):
        if (each.group, each.kind) == (group, kind):
            return each.metadata_resource()
    return None


def _finalizers(item: Item) -> tuple[Cause, ...]:
    """Return the remark about finalizers that will hold the object."""
    names = finalizers_of(item)
    if not names:
        return ()
    return (
        item.cause(
            "HasFinalizer",
            f"once it is deleted, it stays until {', '.join(names)} is removed",
            "metadata.finalizers",
            item.created_at,
            state=State.HEALTHY,
        ),
    )
