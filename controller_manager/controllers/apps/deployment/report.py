"""Decisions that end with a report in the deployment's status (sync.go)."""

from datetime import datetime

from msgspec.structs import replace

from controller_manager.api.meta import annotations_of
from controller_manager.control.decision import Decision, Reason
from controller_manager.controllers.apps.deployment.actions import (
    Action,
    DeploymentDecision,
    StatusReport,
)
from controller_manager.controllers.apps.deployment.progress import (
    FOUND_NEW_REPLICA_SET,
    NEW_REPLICA_SET_CREATED,
    has_deadline,
    next_progress_check,
    record_pause,
    rollout_status,
)
from controller_manager.controllers.apps.deployment.reasons import rollout_reasons
from controller_manager.controllers.apps.deployment.revisions import (
    REVISION,
    max_revision,
)
from controller_manager.controllers.apps.deployment.status import (
    PROGRESSING,
    Draft,
    calculate_status,
    condition,
    find_condition,
)
from controller_manager.controllers.apps.deployment.view import Created, View


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

    `waiting` are reasons in addition to those of the replica sets. Asks for another
    sync when the progress deadline passes.
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
