"""What a deployment's sync does, as a pure function of what it knows.

A sync takes these steps, of which most syncs need only the first:

1. Claim the replica sets.
2. If cached templates may be outdated, read them again and begin anew.
3. Bring the revision of the new replica set up to date.
4. Scale, if the deployment is paused or has another size than before.
5. Else follow the strategy, which may create the new replica set.

Each way ends by reporting a status, or it changes a size; then the event of the
replica set brings the next sync, which reports. A rollback takes the place of 3-5.
"""

from collections.abc import Callable
from datetime import datetime

import msgspec

from controller_manager.api.apps.v1 import Deployment, ReplicaSet
from controller_manager.api.meta import is_deleting
from controller_manager.api.selectors import SelectorError, compile_selector
from controller_manager.control.decision import Decision, Reason, Step, awaited_by
from controller_manager.controllers.apps.deployment.actions import (
    ClaimReplicaSets,
    DeleteReplicaSet,
    DeploymentDecision,
    DeploymentStep,
    RecordEvent,
    RereadReplicaSets,
    StatusReport,
    warning,
)
from controller_manager.controllers.apps.deployment.creation import (
    ensure_new,
    sync_revision,
)
from controller_manager.controllers.apps.deployment.progress import is_complete
from controller_manager.controllers.apps.deployment.reasons import about_deployment
from controller_manager.controllers.apps.deployment.recreate import (
    old_pods_running,
    plan_growing,
    plan_shrinking,
)
from controller_manager.controllers.apps.deployment.report import (
    draft_of,
    report_progress,
    report_sizes,
)
from controller_manager.controllers.apps.deployment.resizing import resizing
from controller_manager.controllers.apps.deployment.revisions import superfluous
from controller_manager.controllers.apps.deployment.rollback import (
    requested_revision,
    roll_back,
)
from controller_manager.controllers.apps.deployment.rolling import plan_rolling
from controller_manager.controllers.apps.deployment.rollout import Rollout
from controller_manager.controllers.apps.deployment.scaling import (
    RECREATE,
    ROLLING_UPDATE,
    Plan,
    is_scaling_event,
    plan_scaling,
)
from controller_manager.controllers.apps.deployment.status import Draft
from controller_manager.controllers.apps.deployment.templates import may_be_equal
from controller_manager.controllers.apps.deployment.view import (
    NamespaceTerminating,
    View,
)
from controller_manager.runtime.outcome import Requeue


def decide(view: View, now: datetime) -> DeploymentStep | DeploymentDecision:
    """Return what follows from `view`: the next step, or how the sync ends.

    Pure, and defined for every view that the API server allows. After at most five
    steps it comes to a decision.
    """
    deployment, rollout = view.deployment, view.rollout
    if not view.claimed:
        return _claim(deployment)
    if is_deleting(deployment):
        return report_sizes(view, Draft.of(deployment), now)
    if doubtful := _doubtful(view):
        return _reread(deployment, doubtful)
    revision = requested_revision(deployment)
    if revision is not None and not deployment.spec.paused:
        return roll_back(view, revision, now)
    if (step := sync_revision(view)) is not None:
        return step
    # Once a replica set was created, the strategy is being followed already.
    if view.creation is None and (deployment.spec.paused or is_scaling_event(rollout)):
        return _scale(view, now)
    match deployment.spec.strategy.type:
        case "RollingUpdate":
            return _go_on(view, plan_rolling, now)
        case "Recreate":
            return _recreate(view, now)
        case other:
            message = (
                f"This deployment cannot be processed: unexpected deployment "
                f"strategy type: {other!r}; use {RECREATE} or {ROLLING_UPDATE}"
            )
            return _refuse(deployment, "InvalidStrategy", message)


# Before the replica sets are known.


def _claim(deployment: Deployment) -> DeploymentStep | DeploymentDecision:
    """Claim by the selector; warn if it cannot be used."""
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
    """Warn, and leave the rest until somebody mends the deployment."""
    waiting = about_deployment(deployment, f"its spec to be mended: {message}")
    event = RecordEvent(warning(reason, message))
    return Decision((event,), status, (waiting,))


def _with_generation_observed(deployment: Deployment) -> StatusReport | None:
    """Return the report that this generation was looked at, if it is news."""
    generation = deployment.metadata.generation
    if deployment.status.observed_generation >= generation:
        return None
    status = msgspec.structs.replace(deployment.status, observed_generation=generation)
    observed = msgspec.structs.replace(deployment, status=status)
    return StatusReport(observed, judges_progress=False)


def _doubtful(view: View) -> tuple[ReplicaSet, ...]:
    """Return old replica sets that may have the current template after all.

    Cached objects may be of the current version and yet lack a default that an
    API server which was upgraded meanwhile shows for them. Then what is cached
    is replaced, and the sync begins anew. Once for each version of a deployment.
    """
    if view.rollout.new is not None or view.creation is not None or view.is_reread:
        return ()
    template = view.deployment.spec.template
    return tuple(
        each for each in view.rollout.old if may_be_equal(each.spec.template, template)
    )


def _reread(
    deployment: Deployment, doubtful: tuple[ReplicaSet, ...]
) -> DeploymentDecision:
    waiting_for = "the cache to show what the API server shows"
    return Decision(
        (RereadReplicaSets(doubtful),),
        reasons=(about_deployment(deployment, waiting_for),),
        retry=Requeue(0.0, "the cache shows what another API server showed"),
    )


# The ways to go on.


def _scale(view: View, now: datetime) -> DeploymentDecision:
    """Give a changed size to the replica sets, and nothing else."""
    deployment, rollout = view.deployment, view.rollout
    if patches := resizing(deployment, plan_scaling(rollout)):
        return Decision(patches, reasons=awaited_by(patches))
    deletions: tuple[DeleteReplicaSet, ...] = ()
    if deployment.spec.paused and requested_revision(deployment) is None:
        # A rollback waits for the end of the pause, and needs its revision.
        deletions = _clean_up(rollout)
    return report_sizes(view, draft_of(view, now), now, actions=deletions)


def _recreate(view: View, now: datetime) -> DeploymentStep | DeploymentDecision:
    """Take all old pods away; go on when the last one has ended."""
    if patches := resizing(view.deployment, plan_shrinking(view.rollout)):
        return Decision(patches, reasons=awaited_by(patches))
    if old_pods_running(view.rollout, view.old_pods):
        waiting = about_deployment(view.deployment, "the last old pods to end")
        return report_progress(view, now, waiting=(waiting,))
    return _go_on(view, plan_growing, now)


def _go_on(
    view: View, plan: Callable[[Rollout], Plan], now: datetime
) -> DeploymentStep | DeploymentDecision:
    """Create the new replica set, or else carry out `plan`, or else report."""
    if (first := ensure_new(view, now)) is not None:
        return first
    if not view.new_existed:
        return report_progress(view, now, waiting=_end_of_namespace(view))
    deployment, rollout = view.deployment, view.rollout
    if patches := resizing(deployment, plan(rollout)):
        return Decision(patches, reasons=awaited_by(patches))
    complete = is_complete(deployment, deployment.status)
    return report_progress(view, now, actions=_clean_up(rollout) if complete else ())


def _end_of_namespace(view: View) -> tuple[Reason, ...]:
    if not isinstance(view.creation, NamespaceTerminating):
        return ()
    return (about_deployment(view.deployment, "its namespace to be deleted"),)


def _clean_up(rollout: Rollout) -> tuple[DeleteReplicaSet, ...]:
    """Delete old replica sets beyond revisionHistoryLimit."""
    return tuple(map(DeleteReplicaSet, superfluous(rollout)))
