"""The decision of a deployment's sync, as a pure function of its view.

A sync takes these steps; most syncs need only the first:

1. Claim the replica sets.
2. If cached templates may be outdated, read them again and start again.
3. Update the revision of the new replica set.
4. Scale, if the deployment is paused or its size has changed.
5. Else follow the strategy, which may create the new replica set.

Each sync ends with a report of the status or with a new size for a replica set. After
a new size, the event of the replica set causes the next sync, which reports. A
rollback replaces the steps 3-5.

Rollback by an annotation that comes from extensions/v1beta1 (rollback.go).

``kubectl rollout undo`` patches the template itself. This module serves clients that
set ``deprecated.deployment.rollback.to``.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from controller_manager.api.apps.v1 import POD_TEMPLATE_HASH, Deployment, ReplicaSet
from controller_manager.api.meta import annotations_of, is_deleting
from controller_manager.api.numbers import parse_int
from controller_manager.api.selectors import SelectorError, compile_selector
from controller_manager.control.decision import Decision, Step, awaited_by
from controller_manager.runtime.consistency import STALE_RECHECK
from controller_manager.runtime.outcome import Reason, Requeue

from .actions import (
    ClaimReplicaSets,
    DeleteReplicaSet,
    DeploymentDecision,
    DeploymentStep,
    ReadDeployment,
    RecordEvent,
    ReplaceDeployment,
    RereadReplicaSets,
    StatusReport,
    about_deployment,
    normal,
    warning,
)
from .fenceposts import ROLLING_UPDATE
from .new_replica_set import ensure_new, hold_mutated, sync_revision
from .pod_template import equal_ignoring_hash, may_be_equal
from .progress import is_complete
from .recreate import old_pods_running, plan_scale_down, plan_scale_up
from .report import draft_of, report_progress, report_sizes
from .revisions import (
    NOT_COPIED,
    REVISION,
    ROLLBACK_TO,
    beyond_history_limit,
    last_revision,
    revision_of,
)
from .rolling_update import plan_rolling
from .scaling import RECREATE, Plan, is_scaling_event, plan_scaling, resize_patches
from .status import Draft
from .view import NamespaceTerminating, Rollout, View

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


def decide(view: View, now: datetime) -> DeploymentStep | DeploymentDecision:
    """Return the next step, or the decision that ends the sync.

    Pure, and defined for every view that the API server allows. It returns a decision
    after five steps at most.
    """
    deployment, rollout = view.deployment, view.rollout
    if not view.claimed:
        return _claim(deployment)
    if is_deleting(deployment):
        return report_sizes(view, Draft.of(deployment), now)
    if outdated := _maybe_outdated(view):
        return _reread(deployment, outdated)
    revision = requested_revision(deployment)
    if revision is not None and not deployment.spec.paused:
        return roll_back(view, revision, now)
    if (step := sync_revision(view)) is not None:
        return step
    # If this sync has created a replica set, it is following the strategy already.
    if view.creation is None and (deployment.spec.paused or is_scaling_event(rollout)):
        return _scale(view, now)
    match deployment.spec.strategy.type:
        case "RollingUpdate":
            return _follow_plan(view, plan_rolling, now)
        case "Recreate":
            return _recreate(view, now)
        case other:
            message = (
                f"This deployment cannot be processed: unexpected deployment "
                f"strategy type: {other!r}; use {RECREATE} or {ROLLING_UPDATE}"
            )
            return _refuse(deployment, "InvalidStrategy", message)


# Decisions before the replica sets are claimed.


def _claim(deployment: Deployment) -> DeploymentStep | DeploymentDecision:
    """Claim replica sets by the selector; warn if the selector cannot be used."""
    try:
        selector = compile_selector(deployment.spec.selector)
    except SelectorError as error:
        message = f"This deployment cannot be processed: {error}"
        return _refuse(deployment, "InvalidSelector", message)
    if selector.is_empty:
        message = (
            "This deployment is selecting all pods. A non-empty selector is required."
        )
        return _refuse(
            deployment, "SelectingAll", message, _with_generation_observed(deployment)
        )
    template_labels = deployment.spec.template.metadata.labels or {}
    if not selector.matches(template_labels):
        message = (
            "This deployment cannot be processed: the selector does not match "
            "the labels of the pod template"
        )
        return _refuse(deployment, "InvalidTemplate", message)
    return Step((ClaimReplicaSets(selector),))


def _refuse(
    deployment: Deployment,
    reason: str,
    message: str,
    status: StatusReport | None = None,
) -> DeploymentDecision:
    """Warn, and do nothing else until a user corrects the deployment."""
    waiting = about_deployment(deployment, f"its spec to be corrected: {message}")
    event = RecordEvent(warning(reason, message))
    return Decision((event,), status, (waiting,))


def _with_generation_observed(deployment: Deployment) -> StatusReport | None:
    """Return a report with this generation as observed, `None` if it is reported."""
    generation = deployment.metadata.generation
    if deployment.status.observed_generation >= generation:
        return None
    status = msgspec.structs.replace(deployment.status, observed_generation=generation)
    observed = msgspec.structs.replace(deployment, status=status)
    return StatusReport(observed, updates_progress=False)


def _maybe_outdated(view: View) -> tuple[ReplicaSet, ...]:
    """Return old replica sets whose cached template may be outdated.

    The template of such a replica set may be the current one: after an upgrade, the
    API server shows a new default, which a cached object of the same resource version
    lacks. Then the cached objects are replaced, and the sync starts again. This happens
    once for each version of a deployment.
    """
    if view.rollout.new is not None or view.creation is not None or view.is_reread:
        return ()
    template = view.deployment.spec.template
    return tuple(
        each for each in view.rollout.old if may_be_equal(each.spec.template, template)
    )


def _reread(
    deployment: Deployment, outdated: tuple[ReplicaSet, ...]
) -> DeploymentDecision:
    waiting_for = "the cache to show the templates of the API server"
    return Decision(
        (RereadReplicaSets(outdated),),
        reasons=(about_deployment(deployment, waiting_for),),
        retry=Requeue(0.0, "the cache may have templates of another API server"),
    )


# Scaling and the strategies.


def _scale(view: View, now: datetime) -> DeploymentDecision:
    """Scale the replica sets to a changed size; create no replica set."""
    deployment, rollout = view.deployment, view.rollout
    if patches := resize_patches(deployment, plan_scaling(rollout)):
        return Decision(patches, reasons=awaited_by(patches))
    deletions: tuple[DeleteReplicaSet, ...] = ()
    if deployment.spec.paused and requested_revision(deployment) is None:
        # A rollback waits for the end of the pause, and needs its revision.
        deletions = _clean_up(rollout)
    return report_sizes(view, draft_of(view, now), now, actions=deletions)


def _recreate(view: View, now: datetime) -> DeploymentStep | DeploymentDecision:
    """Delete all old pods; create new ones when the last old one has ended.

    While admission changes each new replica set, the old pods stay: nothing would
    replace them.
    """
    if (held := hold_mutated(view, now)) is not None:
        return held
    if patches := resize_patches(view.deployment, plan_scale_down(view.rollout)):
        return Decision(patches, reasons=awaited_by(patches))
    if old_pods_running(view.rollout, view.old_pods):
        waiting = about_deployment(view.deployment, "the last old pods to end")
        return report_progress(view, now, waiting=(waiting,))
    return _follow_plan(view, plan_scale_up, now)


def _follow_plan(
    view: View, plan: Callable[[Rollout], Plan], now: datetime
) -> DeploymentStep | DeploymentDecision:
    """Create the new replica set if missing, else carry out `plan`, else report."""
    if (first := ensure_new(view, now)) is not None:
        return first
    if not view.new_existed:
        return report_progress(view, now, waiting=_end_of_namespace(view))
    deployment, rollout = view.deployment, view.rollout
    if patches := resize_patches(deployment, plan(rollout)):
        return Decision(patches, reasons=awaited_by(patches))
    complete = is_complete(deployment, deployment.status)
    return report_progress(view, now, actions=_clean_up(rollout) if complete else ())


def _end_of_namespace(view: View) -> tuple[Reason, ...]:
    if not isinstance(view.creation, NamespaceTerminating):
        return ()
    return (about_deployment(view.deployment, "its namespace to be deleted"),)


def _clean_up(rollout: Rollout) -> tuple[DeleteReplicaSet, ...]:
    """Delete old replica sets beyond revisionHistoryLimit."""
    return tuple(map(DeleteReplicaSet, beyond_history_limit(rollout)))
