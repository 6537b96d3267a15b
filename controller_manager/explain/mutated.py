"""Explains owners that do not recognise their new objects: admission changes these."""

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from datetime import timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from controller_manager.api.apps.v1 import CONTROLLER_REVISIONS
from controller_manager.api.json_objects import JSON, object_at
from controller_manager.control import creation_delays
from controller_manager.controllers.apps.deployment.status import REPLICA_SET_MUTATED

from .cause import Cause, Item, last_change, number_at, writers_of
from .view import View, events_of

_MANY: Final = 3
"""Objects made of one template that no race explains: a controller makes one."""

_ALIVE: Final = timedelta(seconds=2 * creation_delays.LONGEST_DRY_RUN_DELAY)
"""The time in which the next event follows if admission still changes revisions."""

_HASH: Final = "pod-template-hash"
_REMEDY: Final = (
    "let the mutating webhook or policy leave this field of {} alone, or set it in the "
    "template as admission does"
)


class _Made(Struct, frozen=True):
    """Objects that an owner has made of its present template, and does not recognise.

    `field` is the first field in which they differ from the template.
    """

    items: Sequence[Item]
    field: str


async def explain_mutated_sets(
    view: View, item: Item, sets: Sequence[Item]
) -> Cause | None:
    """Return the cause if a deployment recognises none of its new replica sets.

    This manager says so by an event. Upstream's makes one replica set after the other.
    """
    made = _made_of(item, sets)
    if made is None:
        return await _told(view, item, REPLICA_SET_MUTATED, "replica sets")
    return item.cause(
        "ReplicaSetMutated",
        f"{len(made.items)} replica sets were made of the current template, and "
        f"the deployment recognises none of them: admission has changed {made.field} "
        "of each",
        made.field,
        min(each.created_at for each in made.items),
        remedy=_REMEDY.format("replica sets"),
    )


async def explain_mutated_revisions(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the cause if a set recognises none of its new controller revisions."""
    told = await _told(
        view, item, creation_delays.REVISION_MUTATED, "controller revisions"
    )
    if told is not None and view.age(told.since) < _ALIVE:
        return (told,)
    if number_at(item.status, "collisionCount") < _MANY:
        return ()
    revisions = [
        each
        for each in await view.list(CONTROLLER_REVISIONS, item.namespace)
        if each.is_controlled_by(item)
    ]
    same = _most_alike([(each, each.json.get("data")) for each in revisions])
    if len(same) < _MANY:
        return ()
    return (
        item.cause(
            "RevisionMutated",
            f"{len(same)} controller revisions have the same content, and the "
            f"{item.resource.kind} recognises none of them: admission changes each",
            "status.collisionCount",
            min(each.created_at for each in same),
            remedy=_REMEDY.format("controller revisions"),
        ),
    )


async def _told(view: View, item: Item, reason: str, what: str) -> Cause | None:
    """Return the cause that an event about the present spec tells, `None` for none."""
    found = await events_of(view, item, (reason,))
    if not found or found[0].at < last_change(item):
        return None
    return item.cause(
        reason,
        found[0].message.rstrip("."),
        f"event {reason}",
        found[0].at,
        remedy=_REMEDY.format(what),
    )


def _made_of(item: Item, sets: Sequence[Item]) -> _Made | None:
    """Return the replica sets that a deployment has made of its present template.

    They differ from it in the same field. They are younger than the template; or they
    are equal to each other, which those of different templates never are.
    """
    template = object_at(item.spec, "template")
    fields = {each.uid: _difference(template, each) for each in sets}
    if not fields:
        return None
    field, count = Counter(fields.values()).most_common(1)[0]
    if count < _MANY or not field:
        return None
    alike = [each for each in sets if fields[each.uid] == field]
    times = [each.at for each in writers_of(item, "spec", "template")]
    since = max(times, default="")
    younger = [each for each in alike if since and each.created_at > since]
    equal = _most_alike([(each, _template_of(each)) for each in alike])
    found = max(younger, equal, key=len)
    return _Made(found, field) if len(found) >= _MANY else None


def _difference(template: JSON, replica_set: Item) -> str:
    return creation_delays.first_difference(
        template, _template_of(replica_set), "spec.template"
    )


def _template_of(replica_set: Item) -> JSON:
    """Return the template of a replica set without the hash that its owner adds."""
    template: JSON = deepcopy(object_at(replica_set.spec, "template"))
    object_at(object_at(template, "metadata"), "labels").pop(_HASH, None)
    return template


def _most_alike(pairs: Sequence[tuple[Item, Any]]) -> Sequence[Item]:
    """Return the most objects that have equal contents."""
    groups: dict[bytes, list[Item]] = {}
    for item, content in pairs:
        key = msgspec.json.encode(content, order="deterministic")
        groups.setdefault(key, []).append(item)
    return max(groups.values(), key=len, default=[])
