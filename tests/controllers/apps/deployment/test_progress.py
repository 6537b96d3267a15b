"""Conditions, and whether a rollout makes progress."""

from datetime import UTC, datetime, timedelta

import msgspec

from controller_manager.api.apps.v1 import Deployment, DeploymentStatus
from controller_manager.api.meta import find_condition
from controller_manager.controllers.apps.deployment.status import (
    PROGRESSING,
    condition,
    has_timed_out,
    next_progress_check,
    record_pause,
    with_condition,
)
from tests.controllers.builders import deployment

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def progressing(reason: str, status: str = "True", age: int = 0) -> Deployment:
    subject = deployment(progressDeadlineSeconds=60)
    entry = condition(PROGRESSING, status, reason, "m", NOW - timedelta(seconds=age))
    status_ = DeploymentStatus(conditions=(entry,))
    return msgspec.structs.replace(subject, status=status_)


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
    subject = progressing("ReplicaSetUpdated", age=60)
    current = find_condition(subject.status.conditions, PROGRESSING)
    assert not has_timed_out(subject, current, NOW)
    assert has_timed_out(subject, current, NOW + timedelta(seconds=1))
    done = progressing("NewReplicaSetAvailable", age=1000)
    current = find_condition(done.status.conditions, PROGRESSING)
    assert not has_timed_out(done, current, NOW)


def test_the_next_sync_comes_a_second_after_the_deadline() -> None:
    """None once it is complete or has failed."""
    for reason, expected in (
        ("ReplicaSetUpdated", 51.0),
        ("ProgressDeadlineExceeded", None),
        ("NewReplicaSetAvailable", None),
    ):
        subject = progressing(reason, age=10)
        status = subject.status
        assert next_progress_check(subject, status, NOW) == expected


def paused(subject: Deployment, *, value: bool) -> Deployment:
    spec = msgspec.structs.replace(subject.spec, paused=value)
    return msgspec.structs.replace(subject, spec=spec)


def test_pausing_and_resuming_are_noted() -> None:
    """So a pause never counts as missing progress."""
    subject = paused(progressing("ReplicaSetUpdated"), value=True)
    noted = find_condition(record_pause(subject, NOW).status.conditions, PROGRESSING)
    assert noted is not None
    assert (noted.status, noted.reason) == ("Unknown", "DeploymentPaused")
    resumed = progressing("DeploymentPaused", "Unknown")
    noted = find_condition(record_pause(resumed, NOW).status.conditions, PROGRESSING)
    assert noted is not None
    assert (noted.status, noted.reason) == ("Unknown", "DeploymentResumed")


def test_a_missed_deadline_is_not_covered_up_by_a_pause() -> None:
    """The reason ProgressDeadlineExceeded stays."""
    subject = paused(progressing("ProgressDeadlineExceeded", "False"), value=True)
    assert record_pause(subject, NOW) == subject
