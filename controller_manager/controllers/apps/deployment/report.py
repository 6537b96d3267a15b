"""Decisions that end a sync with a report of the status.

The report tells the reasons why a rollout is not complete. Upstream: sync.go and
progress.go.
"""

from datetime import datetime

from msgspec.structs import replace

from controller_manager.api.apps.v1 import DeploymentStatus
from controller_manager.api.conditions import find_condition
from controller_manager.api.meta import annotations_of
from controller_manager.api.workloads import desired_replicas
from controller_manager.control.decision import Decision
from controller_manager.runtime.outcome import Reason

from .actions import (
    Action,
    DeploymentDecision,
    StatusReport,
    about_deployment,
    about_replica_set,
)
from .progress import (
    FOUND_NEW_REPLICA_SET,
    NEW_REPLICA_SET_CREATED,
    has_deadline,
    is_complete,
    next_progress_check,
    record_pause,
    rollout_status,
)
from .revisions import REVISION, max_revision
from .status import PROGRESSING, Draft, calculate_status, condition, replica_failure
from .view import Created, Rollout, View


def draft_of(view: View, now: datetime) -> Draft:
    """Return the draft of the deployment's conditions and revision at this step."""
    draft = record_pause(Draft.of(view.deployment), now)
    new = view.rollout.new
    if new is None:
        return draft
    name = new.metadata.name
    if isinstance(view.creation, Created):
        revision: str | None = str(max_revision(view.rollout.old) + 1)
        what = (NEW_REPLICA_SET_CREATED, f'Created new replica set "{name}"')
        is_news = True
    else:
        revision = annotations_of(new.metadata).get(REVISION)
        what = (FOUND_NEW_REPLICA_SET, f'Found new replica set "{name}"')
        is_news = find_condition(draft.conditions, PROGRESSING) is None
    draft = replace(draft, revision=revision)
    if not is_news or not has_deadline(view.deployment):
        return draft
    return draft.with_condition(condition(PROGRESSING, "True", *what, now))


def report_sizes(
    view: View, draft: Draft, now: datetime, *, actions: tuple[Action, ...] = ()
) -> DeploymentDecision:
    """Report without the condition Progressing (syncDeploymentStatus)."""
    rollout = view.rollout
    status = calculate_status(rollout, draft, now, terminating=view.counts_terminating)
    return Decision(
        actions,
        StatusReport(draft.deployment_with(status), updates_progress=False),
        rollout_reasons(rollout, status),
    )


def report_progress(
    view: View,
    now: datetime,
    *,
    actions: tuple[Action, ...] = (),
    waiting: tuple[Reason, ...] = (),
) -> DeploymentDecision:
    """Report with the condition Progressing (syncRolloutStatus).

    `waiting` are reasons in addition to those of the replica sets. The decision
    requests another sync when the progress deadline passes.
    """
    rollout, draft = view.rollout, draft_of(view, now)
    status = calculate_status(rollout, draft, now, terminating=view.counts_terminating)
    status = rollout_status(rollout, draft, status, now)
    return Decision(
        actions,
        StatusReport(draft.deployment_with(status), updates_progress=True),
        (*waiting, *rollout_reasons(rollout, status)),
        next_progress_check(rollout.deployment, status, now),
    )


def rollout_reasons(rollout: Rollout, status: DeploymentStatus) -> tuple[Reason, ...]:
    """Return the reasons why a rollout is not complete; none if it is complete.

    `status` is calculated from the current replica sets. The reasons exist since the
    last update of the condition Progressing.
    """
    deployment = rollout.deployment
    deleted_at = deployment.metadata.deletion_timestamp
    if deleted_at:
        return (about_deployment(deployment, "the deployment to be gone", deleted_at),)
    if is_complete(deployment, status):
        return ()
    progressing = find_condition(status.conditions, PROGRESSING)
    since = progressing.last_update_time if progressing is not None else None
    if deployment.spec.paused:
        return (about_deployment(deployment, "the end of the pause", since),)
    reasons = [
        *_failure(rollout),
        *_of_new(rollout, since),
        *(
            about_replica_set(
                each, f"{_pods(each.status.replicas, 'old')} to be gone", since
            )
            for each in rollout.old
            if each.status.replicas > 0
        ),
    ]
    if not reasons:
        waiting_for = "replica sets to report the pods that they have"
        reasons.append(about_deployment(deployment, waiting_for, since))
    return tuple(reasons)


def _failure(rollout: Rollout) -> list[Reason]:
    """Return a reason for the condition ReplicaFailure, if a replica set has it."""
    failure = replica_failure(rollout.new, rollout.all)
    if failure is None:
        return []
    waiting_for = f"the end of {failure.reason}: {failure.message}"
    since = failure.last_transition_time
    return [about_deployment(rollout.deployment, waiting_for, since)]


def _of_new(rollout: Rollout, since: str | None) -> list[Reason]:
    """Return reasons for missing, unavailable and surplus new pods."""
    deployment, new = rollout.deployment, rollout.new
    wanted = desired_replicas(deployment)
    if new is None:
        missing_set = about_deployment(deployment, "a new replica set", since)
        return [missing_set] if wanted else []
    current, available = new.status.replicas, new.status.available_replicas
    reasons = []
    if current < wanted:
        waiting_for = f"{_pods(wanted - current, 'new')} to be created"
        reasons.append(about_replica_set(new, waiting_for, since))
    if current > wanted:
        waiting_for = f"{_pods(current - wanted, 'surplus')} to be gone"
        reasons.append(about_replica_set(new, waiting_for, since))
    if available < min(current, wanted):
        missing = min(current, wanted) - available
        waiting_for = f"{_pods(missing, 'new')} to be available"
        reasons.append(about_replica_set(new, waiting_for, since))
    return reasons


def _pods(count: int, which: str) -> str:
    return f"{count} {which} pod" if count == 1 else f"{count} {which} pods"
