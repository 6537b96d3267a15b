"""Revisions, the annotations that carry them, and the rollback to one.

Upstream: deployment_util.go and rollback.go.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from controller_manager.api.apps.v1 import POD_TEMPLATE_HASH, Deployment, ReplicaSet
from controller_manager.api.meta import ObjectMeta, annotations_of
from controller_manager.api.scalars import parse_int

from .rollout import Rollout, by_age

REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO: Final = "deprecated.deployment.rollback.to"

NOT_COPIED: Final = (
    *(REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS),
    *(ROLLBACK_TO, "kubectl.kubernetes.io/last-applied-configuration"),
)
"""Annotations that a replica set does not inherit from its deployment."""

_MAX_HISTORY_LENGTH: Final = 2000


def revision_of(metadata: ObjectMeta) -> int:
    """Return the revision annotation, 0 if absent or malformed."""
    return parse_int(annotations_of(metadata).get(REVISION, ""), 64) or 0


def max_revision(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the highest revision."""
    return max((0, *(revision_of(each.metadata) for each in replica_sets)))


def synced_annotations(
    deployment: Deployment, current: Mapping[str, str], revision: int
) -> dict[str, str]:
    """Return the annotations of the new replica set: also the deployment's.

    Those that the deployment does not have any more stay. A higher `revision` replaces
    the replica set's own, which is added to the history. The history is limited to
    2,000 characters; the oldest entries are dropped.
    """
    annotations = {**current, **_copied(deployment.metadata)}
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


def _copied(metadata: ObjectMeta) -> dict[str, str]:
    annotations = annotations_of(metadata).items()
    return {key: value for key, value in annotations if key not in NOT_COPIED}


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


def revision_patch(rollout: Rollout) -> dict[str, Any]:
    """Return the patch for the new replica set; empty for none (getNewReplicaSet)."""
    deployment, new = rollout.deployment, rollout.new
    if new is None:
        return {}
    current = annotations_of(new.metadata)
    wanted = synced_annotations(deployment, current, max_revision(rollout.old) + 1)
    patch: dict[str, Any] = {}
    if changed := changed_annotations(current, wanted):
        patch["metadata"] = {"annotations": changed}
    if new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
        patch["spec"] = {"minReadySeconds": deployment.spec.min_ready_seconds}
    return patch


def beyond_history_limit(rollout: Rollout) -> Sequence[ReplicaSet]:
    """Return the old replica sets beyond revisionHistoryLimit, oldest first."""
    # One is deleted only if it has no pods, wants none, and its controller has observed
    # this.
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


# Rollback by an annotation that comes from extensions/v1beta1 (rollback.go). ``kubectl
# rollout undo`` patches the template itself.


def requested_revision(deployment: Deployment) -> int | None:
    """Return the requested revision, 0 for the last one, `None` for no request."""
    return parse_int(annotations_of(deployment.metadata).get(ROLLBACK_TO, ""), 64)


def rollback_target(rollout: Rollout, revision: int) -> ReplicaSet | None:
    """Return the replica set of that revision; 0 means the second highest one."""
    wanted = revision
    if revision == 0:
        known = sorted(revision_of(each.metadata) for each in rollout.all)
        wanted = known[-2] if len(known) > 1 else 0
    if wanted == 0:
        return None
    found = (each for each in rollout.all if revision_of(each.metadata) == wanted)
    return next(found, None)


def without_request(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the deployment's JSON without the annotation."""
    metadata = dict(deployment["metadata"])
    metadata["annotations"] = {
        key: value
        for key, value in metadata.get("annotations", {}).items()
        if key != ROLLBACK_TO
    }
    return {**deployment, "metadata": metadata}


def rolled_back(deployment: Mapping[str, Any], target: ReplicaSet) -> dict[str, Any]:
    """Return the deployment's JSON with template and annotations of `target`."""
    cleared = without_request(deployment)
    kept = {
        key: value
        for key, value in cleared["metadata"]["annotations"].items()
        if key in NOT_COPIED
    }
    template = msgspec.json.decode(msgspec.json.encode(target.spec.template))
    template["metadata"]["labels"].pop(POD_TEMPLATE_HASH, None)
    annotations = {**kept, **_copied(target.metadata)}
    metadata = {**cleared["metadata"], "annotations": annotations}
    spec = {**cleared["spec"], "template": template}
    return {**cleared, "metadata": metadata, "spec": spec}
