"""Rollback by an annotation that comes from extensions/v1beta1 (rollback.go).

``kubectl rollout undo`` patches the template itself. This module serves clients that
set ``deprecated.deployment.rollback.to``.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from controller_manager.api.apps.v1 import POD_TEMPLATE_HASH, Deployment, ReplicaSet
from controller_manager.api.meta import annotations_of
from controller_manager.api.numbers import parse_int
from controller_manager.control.decision import Decision, Step, awaited_by
from controller_manager.runtime.consistency import STALE_RECHECK
from controller_manager.runtime.outcome import Requeue

from .actions import (
    DeploymentDecision,
    DeploymentStep,
    ReadDeployment,
    RecordEvent,
    ReplaceDeployment,
    about_deployment,
    normal,
    warning,
)
from .new_replica_set import ensure_new, sync_revision
from .pod_template import equal_ignoring_hash
from .revisions import NOT_COPIED, REVISION, ROLLBACK_TO, last_revision, revision_of
from .view import Rollout, View

DONE_REASON: Final = "DeploymentRollback"
NOT_FOUND_REASON: Final = "DeploymentRollbackRevisionNotFound"
UNCHANGED_REASON: Final = "DeploymentRollbackTemplateUnchanged"


def requested_revision(deployment: Deployment) -> int | None:
    """Return the requested revision, 0 for the last one, `None` for no request."""
    return parse_int(annotations_of(deployment.metadata).get(ROLLBACK_TO, ""), 64)


def roll_back(
    view: View, revision: int, now: datetime
) -> DeploymentStep | DeploymentDecision:
    """Restore the template of an earlier revision; remove the annotation.

    The current template gets its revision first. So "the last revision" is the one
    before it even if the current template was never rolled out.
    """
    if (first := sync_revision(view) or ensure_new(view, now)) is not None:
        return first
    deployment, stored = view.deployment, view.stored
    if stored is None:
        return Step((ReadDeployment(deployment),))
    version = deployment.metadata.resource_version
    if stored["metadata"].get("resourceVersion") != version:
        waiting_for = "the cache to show the last change of the deployment"
        return Decision(
            reasons=(about_deployment(deployment, waiting_for),),
            retry=Requeue(STALE_RECHECK, "the deployment has just changed"),
        )
    target = target_of(view.rollout, revision)
    if target is None:
        which = "the revision to rollback to" if revision else "last revision"
        return _refused(view, stored, NOT_FOUND_REASON, f"Unable to find {which}.")
    if equal_ignoring_hash(target.spec.template, deployment.spec.template):
        message = (
            "The rollback revision contains the same template as current "
            f'deployment "{deployment.metadata.name}"'
        )
        return _refused(view, stored, UNCHANGED_REASON, message)
    number = annotations_of(target.metadata).get(REVISION)
    message = (
        f'Rolled back deployment "{deployment.metadata.name}" to revision {number}'
    )
    replaced = ReplaceDeployment(
        deployment, rolled_back(stored, target), normal(DONE_REASON, message)
    )
    return Decision((replaced,), reasons=awaited_by((replaced,)))


def _refused(
    view: View, stored: Mapping[str, Any], reason: str, message: str
) -> DeploymentDecision:
    """Warn, and remove the annotation."""
    replaced = ReplaceDeployment(view.deployment, without_request(stored))
    return Decision(
        (RecordEvent(warning(reason, message)), replaced),
        reasons=awaited_by((replaced,)),
    )


def target_of(rollout: Rollout, revision: int) -> ReplicaSet | None:
    """Return the replica set of that revision; 0 means the last revision."""
    wanted = revision or last_revision(rollout.all)
    if wanted == 0:
        return None
    return next(
        (each for each in rollout.all if revision_of(each.metadata) == wanted), None
    )


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
    """Return the deployment's JSON with the template of `target`.

    Annotations of that revision are restored, too, such as its change-cause.
    """
    cleared = without_request(deployment)
    kept = {
        key: value
        for key, value in cleared["metadata"]["annotations"].items()
        if key in NOT_COPIED
    }
    restored = {
        key: value
        for key, value in annotations_of(target.metadata).items()
        if key not in NOT_COPIED
    }
    template = msgspec.json.decode(msgspec.json.encode(target.spec.template))
    template["metadata"]["labels"].pop(POD_TEMPLATE_HASH, None)
    metadata = {**cleared["metadata"], "annotations": {**kept, **restored}}
    spec = {**cleared["spec"], "template": template}
    return {**cleared, "metadata": metadata, "spec": spec}
