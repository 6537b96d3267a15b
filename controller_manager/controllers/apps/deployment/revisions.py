"""Revisions, and the annotations that replica sets carry (deployment_util.go)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller_manager.api.apps.v1 import Deployment, ReplicaSet
from controller_manager.api.meta import ObjectMeta, annotations_of
from controller_manager.api.numbers import parse_int

from .view import Rollout, by_age

REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO: Final = "deprecated.deployment.rollback.to"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

NOT_COPIED: Final = frozenset(
    (
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        ROLLBACK_TO,
        LAST_APPLIED,
    )
)
"""Annotations that a replica set does not inherit from its deployment."""

_MAX_HISTORY_LENGTH: Final = 2000


def revision_of(metadata: ObjectMeta) -> int:
    """Return the revision annotation, 0 if absent or malformed."""
    return parse_int(annotations_of(metadata).get(REVISION, ""), 64) or 0


def max_revision(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the highest revision."""
    return max((0, *(revision_of(each.metadata) for each in replica_sets)))


def last_revision(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the second highest revision, the default target of a rollback."""
    revisions = sorted(
        (revision_of(each.metadata) for each in replica_sets), reverse=True
    )
    return revisions[1] if len(revisions) > 1 else 0


def desired_annotation(replica_set: ReplicaSet) -> int | None:
    """Return the deployment's size when this replica set was last scaled."""
    return parse_int(annotations_of(replica_set.metadata).get(DESIRED_REPLICAS, ""), 32)


def max_annotation(replica_set: ReplicaSet) -> int | None:
    """Return the deployment's size with surge when it was last scaled."""
    size = parse_int(annotations_of(replica_set.metadata).get(MAX_REPLICAS, ""), 32)
    return size if size is not None and size >= 0 else None


def size_annotations(desired: int, maximum: int) -> dict[str, str]:
    """Return the annotations that a scaled replica set carries."""
    return {DESIRED_REPLICAS: str(desired), MAX_REPLICAS: str(maximum)}


def synced_annotations(
    deployment: Deployment, current: Mapping[str, str], revision: int
) -> dict[str, str]:
    """Return the annotations that the new replica set should have.

    The replica set inherits the deployment's annotations except `NOT_COPIED`.
    Annotations that the deployment does not have any more stay. The replica set gets
    `revision` if that is higher than its own revision, which is then added to the
    revision-history. The history is limited to 2,000 characters; the oldest entries are
    dropped.
    """
    inherited = {
        key: value
        for key, value in annotations_of(deployment.metadata).items()
        if key not in NOT_COPIED
    }
    annotations = {**current, **inherited}
    own = current.get(REVISION, "")
    known = parse_int(own or "0", 64)
    if known is None:
        return annotations  # leave a malformed revision as it is
    if known < revision:
        annotations[REVISION] = str(revision)
        if own:
            annotations[REVISION_HISTORY] = _extended_history(
                current.get(REVISION_HISTORY, ""), own
            )
    return annotations


def _extended_history(history: str, revision: str) -> str:
    revisions = [each for each in history.split(",") if each] + [revision]
    while len(",".join(revisions)) > _MAX_HISTORY_LENGTH:
        revisions.pop(0)
    return ",".join(revisions)


def changed_annotations(
    current: Mapping[str, str], wanted: Mapping[str, str]
) -> dict[str, str]:
    """Return the entries of `wanted` that `current` lacks or has with other values."""
    return {key: value for key, value in wanted.items() if current.get(key) != value}


def beyond_history_limit(rollout: Rollout) -> Sequence[ReplicaSet]:
    """Return the old replica sets beyond revisionHistoryLimit, oldest first.

    A replica set is deleted only if it has no pods, wants none, and its controller has
    observed this.
    """
    limit = rollout.deployment.spec.revision_history_limit
    if limit is None or limit == 2**31 - 1:
        return ()
    cleanable = [each for each in rollout.old if not each.metadata.deletion_timestamp]
    surplus = len(cleanable) - limit
    if surplus <= 0:
        return ()
    cleanable.sort(key=lambda each: (revision_of(each.metadata), by_age(each)))
    return [
        each
        for each in cleanable[:surplus]
        if each.status.replicas == 0
        and each.spec.replicas == 0
        and each.metadata.generation <= each.status.observed_generation
    ]
