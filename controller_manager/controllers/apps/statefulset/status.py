"""The status of a stateful set.

Upstream: computeReplicaStatus, completeRollingUpdate and inconsistentStatus of
stateful_set_control.go and stateful_set_utils.go.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.apps.v1 import StatefulSetStatus
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.pods import is_available
from controller_manager.api.workloads import desired_replicas

from .pods import is_running_and_ready
from .view import ROLLING_UPDATE, View


class _Numbers(Struct):
    """The numbers of pods in each state."""

    replicas: int = 0
    ready: int = 0
    available: int = 0
    current: int = 0
    updated: int = 0


def calculate_status(view: View, now: datetime) -> StatefulSetStatus:
    """Return the status after the actions of a sync.

    Terminating pods count as replicas and as ready pods, but not as pods of a revision.
    Pods of the current revision that the update has just deleted do not count as
    current pods. Upstream subtracts a deleted pod of any revision; then the number may
    be -1, which the API server refuses. A pod with the claims of an earlier set counts
    as a pod of neither revision.
    """
    stateful_set, revisions = view.stateful_set, view.revisions
    replaced = {pod.metadata.uid for pod in view.replaced}
    numbers = _Numbers()
    _add(numbers, view, view.pods, replaced, now)
    status = replace(
        stateful_set.status,
        observed_generation=stateful_set.metadata.generation,
        replicas=numbers.replicas,
        ready_replicas=numbers.ready,
        available_replicas=numbers.available,
        current_replicas=numbers.current,
        updated_replicas=numbers.updated,
        current_revision=revisions.current,
        update_revision=revisions.update,
        collision_count=revisions.collision_count,
    )
    return _with_update_completed(view, status)


def _add(
    numbers: _Numbers,
    view: View,
    pods: Sequence[Pod],
    replaced: Collection[str],
    now: datetime,
) -> None:
    """Count some of the pods; the update has deleted those with the uids `replaced`."""
    created = [pod for pod in pods if pod.status.phase]
    ready = [pod for pod in created if is_running_and_ready(pod)]
    staying = [pod for pod in created if not is_deleting(pod)]
    kept = [pod for pod in staying if pod.metadata.uid not in replaced]
    numbers.replicas += len(created)
    numbers.ready += len(ready)
    numbers.available += sum(
        is_available(pod, view.min_ready_seconds, now) for pod in ready
    )
    numbers.current += _count(view, kept, view.revisions.current)
    numbers.updated += _count(view, staying, view.revisions.update)


def _count(view: View, pods: Iterable[Pod], revision: str) -> int:
    return sum(view.revision_of(pod) == revision for pod in pods)


def _with_update_completed(view: View, status: StatefulSetStatus) -> StatefulSetStatus:
    """Make the update revision the current one, once all pods have it."""
    wanted = desired_replicas(view.stateful_set)
    counts = (status.replicas, status.ready_replicas, status.updated_replicas)
    is_rolling = view.stateful_set.spec.update_strategy.type == ROLLING_UPDATE
    if not is_rolling or any(each != wanted for each in counts):
        return status
    return replace(
        status,
        current_replicas=status.updated_replicas,
        current_revision=status.update_revision,
    )


def is_same(old: StatefulSetStatus, new: StatefulSetStatus) -> bool:
    """Tell whether a status need not be written.

    A new collision count alone is written later, with the status of the new revision.
    An older observedGeneration is never written.
    """
    if new.observed_generation > old.observed_generation:
        return False
    return (
        replace(
            old,
            observed_generation=new.observed_generation,
            collision_count=new.collision_count,
        )
        == new
    )
