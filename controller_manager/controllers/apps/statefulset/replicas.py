"""A stateful set, its pods and its revisions, as one sync sees them; its status."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.apps.v1 import (
    ControllerRevision,
    StatefulSet,
    StatefulSetStatus,
    desired_replicas,
)
from controller_manager.api.core.v1 import Pod, PodTemplateSpec
from controller_manager.api.meta import controller_of, is_deleting, labels_of
from controller_manager.api.pods import is_available, is_ready
from controller_manager.api.selectors import Selector
from controller_manager.control.controller_history import oldest_unused, template_of

from .identity import (
    Claims,
    lacks_new_claims,
    ordinal_of,
    ordinals,
    pod_name,
    revision_of,
)

PARALLEL: Final = "Parallel"
ROLLING_UPDATE: Final = "RollingUpdate"

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

    @classmethod
    def recorded(cls, stateful_set: StatefulSet) -> "Revisions":
        """Return the revisions in the status of a set that is being deleted."""
        # No revision is created for such a set. Upstream creates one, which is deleted
        # with the set.
        status = stateful_set.status
        return cls(
            status.current_revision, status.update_revision, status.collision_count or 0
        )

    def template(self, stateful_set: StatefulSet, name: str) -> PodTemplateSpec:
        """Return the template of a revision; raises msgspec.DecodeError."""
        if name != self.update:
            for revision in self.all:
                if revision.metadata.name == name:
                    return template_of(revision)
        return stateful_set.spec.template


class FoundPods(Struct, frozen=True):
    """The pods of a set, and orphans that its selector matches, at one instant.

    `named` are those with a name that the set gives. `misnamed` are pods that the set
    controls, but without such a name.
    """

    stateful_set: StatefulSet
    selector: Selector
    named: Sequence[Pod]
    misnamed: Sequence[Pod]
    uids: Collection[str]

    @classmethod
    def among(
        cls, pods: Iterable[Pod], stateful_set: StatefulSet, selector: Selector
    ) -> "FoundPods":
        """Divide pods that a set controls, or that have no controller."""
        namespace = stateful_set.metadata.namespace
        named: list[Pod] = []
        misnamed: list[Pod] = []
        uids: set[str] = set()
        for pod in pods:
            uids.add(pod.metadata.uid)
            if pod.metadata.namespace != namespace:
                continue  # a forged owner reference may name a set elsewhere
            if ordinal_of(stateful_set, pod) is not None:
                named.append(pod)
            elif controller_of(pod) is not None:
                misnamed.append(pod)
        return cls(stateful_set, selector, named, misnamed, uids)

    def lacks(self, pod: Pod) -> bool:
        """Tell whether a pod of the set, or one to adopt, came after the search."""
        if pod.metadata.uid in self.uids:
            return False
        controller = controller_of(pod)
        if controller is not None:
            return controller.uid == self.stateful_set.metadata.uid
        return self.selector.matches(labels_of(pod)) and not is_deleting(pod)


class Settings(Struct, frozen=True):
    """The flags and feature gates that a sync depends on.

    With `replaces_stuck_pods`, a rolling update replaces pods of an old revision that
    are not ready, instead of waiting for them. `max_unavailable` is the gate
    MaxUnavailableStatefulSet.
    """

    replaces_stuck_pods: bool = True
    max_unavailable: bool = False


class Slot(Struct, frozen=True):
    """One ordinal that the set wants, and its pod, if there is one."""

    ordinal: int
    name: str
    pod: Pod | None


class Replicas(Struct, frozen=True, kw_only=True, dict=True):
    """A stateful set with its pods and claims, as the caches show them."""

    stateful_set: StatefulSet
    pods: tuple[Pod, ...]
    """The pods of the set; each has a name that the set gives."""

    revisions: Revisions
    claims: Claims = {}
    """The cached claims of its pods, by name."""

    foreign: Mapping[str, Pod] = {}
    """Pods with the name of a wanted pod that the set does not control, by name."""

    failing_since: Mapping[str, datetime] = {}
    """The instants since which pods have start failures, by uid."""

    held: Mapping[str, float] = {}
    """The seconds for which pods that failed at once are not replaced, by name."""

    settings: Settings = Settings()

    @property
    def is_parallel(self) -> bool:
        """True if pods need not wait for each other."""
        return self.stateful_set.spec.pod_management_policy == PARALLEL

    @property
    def min_ready_seconds(self) -> int:
        """The seconds for which a pod must be ready before it is available."""
        return self.stateful_set.spec.min_ready_seconds

    @cached_property
    def slots(self) -> Sequence[Slot]:
        """The wanted ordinals with their pods, in ascending order."""
        by_name = {pod.metadata.name: pod for pod in self.pods}
        names = (
            (ordinal, pod_name(self.stateful_set, ordinal))
            for ordinal in ordinals(self.stateful_set)
        )
        return [Slot(ordinal, name, by_name.get(name)) for ordinal, name in names]

    @cached_property
    def condemned(self) -> Sequence[Pod]:
        """The pods outside of the wanted ordinals, the highest first."""
        wanted = ordinals(self.stateful_set)
        outside = {
            ordinal: pod
            for pod in self.pods
            if (ordinal := ordinal_of(self.stateful_set, pod)) is not None
            and ordinal not in wanted
        }
        return [outside[ordinal] for ordinal in sorted(outside, reverse=True)]

    def revision_of(self, pod: Pod) -> str | None:
        """Return the revision that a pod was made from; empty for a pod without one."""
        # `None` is an old revision without a name: an earlier set of this name made the
        # pod, from other claim templates. The label of such a pod may have the update
        # revision, because a revision records the template of the pods only.
        return None if lacks_new_claims(self.stateful_set, pod) else revision_of(pod)

    def is_unavailable(self, pod: Pod | None, now: datetime) -> bool:
        """Tell whether a pod is missing, terminating, or not ready for long enough."""
        if pod is None or is_deleting(pod):
            return True
        return not is_available(pod, self.min_ready_seconds, now)

    def status(
        self, now: datetime, replaced: Collection[Pod] = ()
    ) -> StatefulSetStatus:
        """Return the status after the writes of a sync (computeReplicaStatus)."""
        # Terminating pods count as replicas and as ready pods, but not as pods of a
        # revision. Pods of the current revision that the update has just `replaced` do
        # not count as current pods. Upstream subtracts a deleted pod of any revision;
        # then the number may be -1, which the API server refuses. A pod with the claims
        # of an earlier set counts as a pod of neither revision.
        revisions, seconds = self.revisions, self.min_ready_seconds
        deleted = {pod.metadata.uid for pod in replaced}
        created = [pod for pod in self.pods if pod.status.phase]
        ready = [pod for pod in created if is_running_and_ready(pod)]
        staying = [pod for pod in created if not is_deleting(pod)]
        kept = [pod for pod in staying if pod.metadata.uid not in deleted]
        status = replace(
            self.stateful_set.status,
            observed_generation=self.stateful_set.metadata.generation,
            replicas=len(created),
            ready_replicas=len(ready),
            available_replicas=sum(is_available(pod, seconds, now) for pod in ready),
            current_replicas=self._count(kept, revisions.current),
            updated_replicas=self._count(staying, revisions.update),
            current_revision=revisions.current,
            update_revision=revisions.update,
            collision_count=revisions.collision_count,
        )
        return _with_update_completed(self.stateful_set, status)

    def _count(self, pods: Iterable[Pod], revision: str) -> int:
        return sum(self.revision_of(pod) == revision for pod in pods)

    def revisions_beyond_limit(self) -> list[ControllerRevision]:
        """Return the revisions to delete, the oldest first (truncateHistory)."""
        stored = self.revisions.all
        limit = self.stateful_set.spec.revision_history_limit
        limit = _HISTORY_LIMIT if limit is None else limit
        if limit < 0 or len(stored) <= limit:
            return []
        current, update = self.revisions.current, self.revisions.update
        in_use = {current, update, *map(revision_of, self.pods)}
        unused = [each for each in stored if each.metadata.name not in in_use]
        return oldest_unused(stored, in_use, len(unused) - limit)


def is_running_and_ready(pod: Pod) -> bool:
    """Tell whether the pod runs and is ready; it may be terminating."""
    return pod.status.phase == "Running" and is_ready(pod)


def _with_update_completed(
    stateful_set: StatefulSet, status: StatefulSetStatus
) -> StatefulSetStatus:
    """Make the update revision current if all pods have it."""
    wanted = desired_replicas(stateful_set)
    counts = (status.replicas, status.ready_replicas, status.updated_replicas)
    is_rolling = stateful_set.spec.update_strategy.type == ROLLING_UPDATE
    if not is_rolling or any(each != wanted for each in counts):
        return status
    return replace(
        status,
        current_replicas=status.updated_replicas,
        current_revision=status.update_revision,
    )


def is_same(old: StatefulSetStatus, new: StatefulSetStatus) -> bool:
    """Tell whether a status need not be written (inconsistentStatus)."""
    # A new collision count alone is written later, with the status of the new revision.
    # An older observedGeneration is never written.
    if new.observed_generation > old.observed_generation:
        return False
    written = replace(
        old,
        observed_generation=new.observed_generation,
        collision_count=new.collision_count,
    )
    return written == new
