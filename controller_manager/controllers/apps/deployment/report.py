"""The decisions that end with a report in the deployment's status (sync.go)."""

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
    note_pause,
    rollout_status,
)
from controller_manager.controllers.apps.deployment.reasons import awaited
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
    """Return what the sync leaves written, as far as it has come."""
    draft = note_pause(Draft.of(view.deployment), now)
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
    return draft.having(condition(PROGRESSING, "True", *what, now))


def report_sizes(
    view: View, draft: Draft, now: datetime, *, actions: tuple[Action, ...] = ()
) -> DeploymentDecision:
    """Report without judging progress (syncDeploymentStatus)."""
    rollout = view.rollout
    status = calculate_status(rollout, draft, now, terminating=view.counts_terminating)
    return Decision(
        actions,
        StatusReport(draft.finished(status), judges_progress=False),
        awaited(rollout, status),
    )


def report_progress(
    view: View,
    now: datetime,
    *,
    actions: tuple[Action, ...] = (),
    waiting: tuple[Reason, ...] = (),
) -> DeploymentDecision:
    """Report with the condition Progressing (syncRolloutStatus).

    `waiting` are reasons besides those that the sizes give. Asks for another look
    when the progress deadline passes.
    """
    rollout, draft = view.rollout, draft_of(view, now)
    status = calculate_status(rollout, draft, now, terminating=view.counts_terminating)
    status = rollout_status(rollout, draft, status, now)
    return Decision(
        actions,
        StatusReport(draft.finished(status), judges_progress=True),
        (*waiting, *awaited(rollout, status)),
        next_progress_check(rollout.deployment, status, now),
    )
