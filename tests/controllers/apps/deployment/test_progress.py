"""Conditions, and whether a rollout makes progress."""

from datetime import UTC, datetime, timedelta

import msgspec

from controller_manager.api.apps.v1 import (
    DeploymentStatus,
)
from controller_manager.api.conditions import find_condition
from controller_manager.controllers.apps.deployment.progress import (
    has_timed_out,
    next_progress_check,
    record_pause,
)
from controller_manager.controllers.apps.deployment.status import (
    PROGRESSING,
    Draft,
    condition,
    with_condition,
)
from tests.controllers.builders import deployment

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def progressing(reason: str, status: str = "True", age: int = 0) -> Draft:
    subject = deployment(progressDeadlineSeconds=60)
    entry = condition(PROGRESSING, status, reason, "m", NOW - timedelta(seconds=age))
    status_ = DeploymentStatus(conditions=(entry,))
    return Draft.of(msgspec.structs.replace(subject, status=status_))


def test_the_same_status_and_reason_change_nothing() -> None:
    """Then times and message do not change."""
    old = condition("A", "True", "R", "before", NOW)
    same = condition("A", "True", "R", "after", NOW + timedelta(hours=1))
    assert with_condition((old,), same) == (old,)


def test_another_reason_keeps_the_time_of_transition() -> None:
    """As long as the status is the same."""
    old = condition("A", "True", "R", "m", NOW)
    other = condition("A", "True", "S", "m", NOW + timedelta(hours=1))
    (result,) = with_condition((old,), other)
    assert result.reason == "S"
    assert result.last_transition_time == old.last_transition_time
    assert result.last_update_time == other.last_update_time


def test_a_deadline_passes_only_after_its_time() -> None:
    """It never passes once the rollout is complete."""
    draft = progressing("ReplicaSetUpdated", age=60)
    current = find_condition(draft.conditions, PROGRESSING)
    assert not has_timed_out(draft.deployment, current, NOW)
    assert has_timed_out(draft.deployment, current, NOW + timedelta(seconds=1))
    done = progressing("NewReplicaSetAvailable", age=1000)
    current = find_condition(done.conditions, PROGRESSING)
    assert not has_timed_out(done.deployment, current, NOW)


def test_the_next_sync_comes_a_second_after_the_deadline() -> None:
    """None once it is complete or has failed."""
    for reason, expected in (
        ("ReplicaSetUpdated", 51.0),
        ("ProgressDeadlineExceeded", None),
        ("NewReplicaSetAvailable", None),
    ):
        draft = progressing(reason, age=10)
        status = draft.deployment.status
        assert next_progress_check(draft.deployment, status, NOW) == expected


def paused(draft: Draft, *, value: bool) -> Draft:
    spec = msgspec.structs.replace(draft.deployment.spec, paused=value)
    return Draft.of(msgspec.structs.replace(draft.deployment, spec=spec))


def test_pausing_and_resuming_are_noted() -> None:
    """So a pause never counts as missing progress."""
    draft = paused(progressing("ReplicaSetUpdated"), value=True)
    noted = find_condition(record_pause(draft, NOW).conditions, PROGRESSING)
    assert noted is not None
    assert (noted.status, noted.reason) == ("Unknown", "DeploymentPaused")
    resumed = progressing("DeploymentPaused", "Unknown")
    noted = find_condition(record_pause(resumed, NOW).conditions, PROGRESSING)
    assert noted is not None
    assert (noted.status, noted.reason) == ("Unknown", "DeploymentResumed")


def test_a_missed_deadline_is_not_covered_up_by_a_pause() -> None:
    """The reason ProgressDeadlineExceeded stays."""
    draft = paused(progressing("ProgressDeadlineExceeded", "False"), value=True)
    assert record_pause(draft, NOW) == draft
