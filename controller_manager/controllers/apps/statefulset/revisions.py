"""The revisions from which the pods of a stateful set are made.

Upstream: getStatefulSetRevisions and truncateHistory of stateful_set_control.go.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Raw, Struct

from controller_manager.api.apps.v1 import ControllerRevision, StatefulSet
from controller_manager.api.core.v1 import Pod, PodTemplateSpec
from controller_manager.control.history.names import HASH_LABEL, data_hash
from controller_manager.control.history.order import next_number, oldest_unused
from controller_manager.control.history.revisions import History
from controller_manager.control.history.template import (
    find_equal,
    is_equal_with_defaults,
    template_data,
    template_of,
)

from .identity import revision_of

_HISTORY_LIMIT: Final = 10
"""The API server's default of revisionHistoryLimit."""


class Revisions(Struct, frozen=True):
    """The revisions of a set: `current` and `update`, by name, and `all` in order.

    The current revision is the revision of the last complete update. The update
    revision records the present template. The status gets `collision_count`.
    """

    current: str
    update: str
    collision_count: int = 0
    all: tuple[ControllerRevision, ...] = ()

    def template(self, stateful_set: StatefulSet, name: str) -> PodTemplateSpec:
        """Return the template that a revision records.

        Raises msgspec.DecodeError if the data of the revision is no template.
        """
        if name != self.update:
            for revision in self.all:
                if revision.metadata.name == name:
                    return template_of(revision)
        return stateful_set.spec.template


def recorded(stateful_set: StatefulSet) -> Revisions:
    """Return the revisions that the status names, for a set that is being deleted.

    No revision is created for such a set. Upstream creates one, which is deleted with
    the set.
    """
    status = stateful_set.status
    return Revisions(
        status.current_revision, status.update_revision, status.collision_count or 0
    )


class Numbered(Struct, frozen=True):
    """The revision of the present template, and the number that it must get."""

    revision: ControllerRevision
    number: int


def find_update(
    revisions: Sequence[ControllerRevision], data: Raw, *, adds_defaults: bool
) -> Numbered | None:
    """Return the revision of the present template, `None` if there is none yet.

    With `adds_defaults`, the newest revision also matches a template that differs from
    it only by defaults. Older revisions must be equal to the template, as upstream. A
    match that is not the newest gets the highest number, because its template is in use
    again. `revisions` are in order.
    """
    if not revisions:
        return None
    newest = revisions[-1]
    if find_equal((newest,), data) is not None or (
        adds_defaults and is_equal_with_defaults(newest.data, data)
    ):
        return Numbered(newest, newest.revision)
    found = find_equal(revisions[:-1], data)
    return None if found is None else Numbered(found, next_number(revisions))


async def sync_revisions(
    history: History[StatefulSet],
    stateful_set: StatefulSet,
    revisions: Sequence[ControllerRevision],
    *,
    adds_defaults: bool,
) -> Revisions:
    """Create or renumber the revision of the present template if necessary.

    `revisions` are those of the set, in order. `adds_defaults` is the feature gate
    StatefulSetSemanticRevisionComparison. Raises the errors of the client.
    """
    data = template_data(stateful_set.spec.template)
    collisions = stateful_set.status.collision_count or 0
    found = find_update(revisions, data, adds_defaults=adds_defaults)
    if found is not None:
        history.has_current(stateful_set)
    if found is None:
        created = await history.create_renamed(
            _new(history, stateful_set, data, next_number(revisions), collisions),
            stateful_set,
            collisions,
        )
        update, collisions = created.revision, created.collision_count
    elif found.number != found.revision.revision:
        update = await history.renumber(found.revision, found.number)
    else:
        update = found.revision
    names = {each.metadata.name for each in revisions}
    current = stateful_set.status.current_revision
    return Revisions(
        current if current in names else update.metadata.name,
        update.metadata.name,
        collisions,
        tuple(revisions),
    )


def _new(
    history: History[StatefulSet],
    stateful_set: StatefulSet,
    data: Raw,
    number: int,
    collisions: int,
) -> ControllerRevision:
    hash_text = data_hash(data, collisions)
    template_labels = stateful_set.spec.template.metadata.labels or {}
    labels = {**template_labels, HASH_LABEL: hash_text}
    return history.new(stateful_set, data, number, hash_text, labels)


def beyond_limit(
    stateful_set: StatefulSet, pods: Sequence[Pod], revisions: Revisions
) -> list[ControllerRevision]:
    """Return the revisions to delete, the oldest first.

    The revisions of pods, the current revision and the update revision are in use and
    do not count.
    """
    limit = stateful_set.spec.revision_history_limit
    limit = _HISTORY_LIMIT if limit is None else limit
    if limit < 0 or len(revisions.all) <= limit:
        return []
    in_use = {revisions.current, revisions.update, *map(revision_of, pods)}
    unused = [each for each in revisions.all if each.metadata.name not in in_use]
    return oldest_unused(revisions.all, in_use, len(unused) - limit)
