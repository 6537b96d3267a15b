"""The revisions of a daemon set (constructHistory and cleanupHistory)."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from controller_manager.api.apps.v1 import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    ControllerRevision,
    DaemonSet,
)
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import controller_of, labels_of, metadata_of
from controller_manager.api.selectors import Selector
from controller_manager.client.rest.client import Client, PatchType
from controller_manager.client.rest.errors import NotFound
from controller_manager.control.controller_history import (
    POD_REVISION_LABEL,
    Collision,
    History,
    data_hash,
    next_number,
    oldest_unused,
)
from controller_manager.runtime.outcome import SyncError

from .nodes import CompiledTemplate

_HISTORY_LIMIT: Final = 10
"""The API server's default of revisionHistoryLimit."""

ClaimPods = Callable[[], Awaitable[Sequence[Pod]]]


class Revisions(Struct, frozen=True):
    """The revision of the current template, and the old revisions in order."""

    current: ControllerRevision
    old: tuple[ControllerRevision, ...]

    @property
    def hash(self) -> str:
        """The value of the label that names the revision of a pod."""
        return labels_of(self.current).get(POD_REVISION_LABEL, "")


class RevisionKeeper:
    """Keeps a revision for the template of each pod, and some older revisions."""

    def __init__(self, client: Client, history: History[DaemonSet]) -> None:
        self._client = client
        self._history = history

    async def construct(
        self,
        daemon_set: DaemonSet,
        selector: Selector,
        compiled: CompiledTemplate,
        claim_pods: ClaimPods,
    ) -> Revisions:
        """Return the revisions; create or renumber the current one.

        If several revisions hold the current template, only the newest is kept. The
        pods of the others get its label, so that they are not replaced. Raises
        SyncError if the name of the new revision is in use.
        """
        claimed = await self._history.claim(daemon_set, selector)
        revisions = [await self._labelled(each) for each in claimed]
        fitting = compiled.matching(revisions)
        current = [each for each in revisions if each.metadata.uid in fitting]
        old = [each for each in revisions if each.metadata.uid not in fitting]
        number = next_number(old)
        if not current:
            created = await self._create(daemon_set, compiled, number)
            # Admission may have changed it, so it does not fit, and may be used again.
            others = (x for x in old if x.metadata.uid != created.metadata.uid)
            return Revisions(created, tuple(others))
        self._history.has_current(daemon_set)
        kept = current[-1]
        if len(current) > 1:
            await self._unite(kept, current[:-1], await claim_pods())
        if kept.revision < number:
            kept = await self._history.renumber(kept, number)
        return Revisions(kept, tuple(old))

    async def clean_up(
        self, daemon_set: DaemonSet, revisions: Revisions, pods: Iterable[Pod]
    ) -> None:
        """Delete the oldest revisions without pods beyond revisionHistoryLimit."""
        limit = daemon_set.spec.revision_history_limit
        excess = len(revisions.old) - (_HISTORY_LIMIT if limit is None else limit)
        if excess <= 0:
            return
        hashes = {labels_of(pod).get(POD_REVISION_LABEL) for pod in pods}
        in_use = {
            each.metadata.name
            for each in revisions.old
            if labels_of(each).get(POD_REVISION_LABEL) in hashes
        }
        for each in oldest_unused(revisions.old, in_use, excess):
            await self._history.delete(each)

    async def _labelled(self, revision: ControllerRevision) -> ControllerRevision:
        """Add the label that pods have to a revision of an old manager."""
        labels = labels_of(revision)
        if POD_REVISION_LABEL in labels:
            return revision
        metadata = msgspec.structs.replace(
            revision.metadata,
            labels={**labels, POD_REVISION_LABEL: revision.metadata.name},
        )
        changed = msgspec.structs.replace(revision, metadata=metadata)
        return await self._client.update(CONTROLLER_REVISIONS, changed)

    async def _unite(
        self,
        kept: ControllerRevision,
        others: Sequence[ControllerRevision],
        pods: Sequence[Pod],
    ) -> None:
        # Upstream labels all pods, also pods of former templates. An update then takes
        # these pods for current ones and does not replace them.
        label = labels_of(kept).get(POD_REVISION_LABEL)
        united = {labels_of(each).get(POD_REVISION_LABEL) for each in others}
        for pod in pods:
            found = labels_of(pod).get(POD_REVISION_LABEL)
            if found != label and found in united:
                await self._relabel(pod, label)
        for each in others:
            await self._history.delete(each)

    async def _relabel(self, pod: Pod, label: str | None) -> None:
        patch = {"metadata": {"labels": {POD_REVISION_LABEL: label}}}
        with suppress(NotFound):  # a pod that is gone needs no label
            await self._client.patch_exactly(
                metadata_of(PODS), pod, patch, PatchType.MERGE
            )

    async def _create(
        self, daemon_set: DaemonSet, compiled: CompiledTemplate, number: int
    ) -> ControllerRevision:
        digest = data_hash(compiled.data, daemon_set.status.collision_count)
        template_labels = daemon_set.spec.template.metadata.labels or {}
        labels = {**template_labels, POD_REVISION_LABEL: digest}
        revision = self._history.new(daemon_set, compiled.data, number, digest, labels)
        try:
            stored = await self._history.create(revision, daemon_set)
            _check_owner(stored, daemon_set)
        except Collision as collision:
            await self._count_collision(daemon_set)
            msg = f"{collision}; the next sync takes another name"
            raise SyncError(msg) from collision
        return stored

    async def _count_collision(self, daemon_set: DaemonSet) -> None:
        """Raise the collision count for the next name, unless it has changed."""
        metadata = daemon_set.metadata
        stored = await self._client.get(DAEMON_SETS, metadata.namespace, metadata.name)
        count = stored.status.collision_count
        if count != daemon_set.status.collision_count:
            return
        status = msgspec.structs.replace(
            stored.status, collision_count=(count or 0) + 1
        )
        changed = msgspec.structs.replace(stored, status=status)
        await self._client.update_for_metadata(DAEMON_SETS, changed, "status")


def _check_owner(stored: ControllerRevision, daemon_set: DaemonSet) -> None:
    # A revision of a former daemon set of the same name may be used until the garbage
    # collector deletes it. Its deletion causes another sync, by `named_owner`.
    reference = controller_of(stored)
    if reference is None or reference.uid == daemon_set.metadata.uid:
        return
    identity = reference.kind, reference.name
    if identity != (DAEMON_SETS.kind, daemon_set.metadata.name):
        raise Collision(stored.metadata.name)


def named_owner(revision: ControllerRevision) -> Iterator[str]:
    """Yield the key of the daemon set that a revision names, whatever its uid."""
    reference = controller_of(revision)
    if reference is not None and reference.kind == DAEMON_SETS.kind:
        yield f"{revision.metadata.namespace}/{reference.name}"
