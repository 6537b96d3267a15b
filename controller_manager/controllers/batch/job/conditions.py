"""The conditions of a job, with upstream's types, reasons and messages."""

from datetime import datetime
from typing import Final

from controller_manager.api.batch.v1 import Job, JobCondition, end_condition
from controller_manager.api.conditions import find_condition
from controller_manager.api.times import format_time

FAILURE_TARGET: Final = "FailureTarget"
SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"
SUSPENDED: Final = "Suspended"


def is_finished(job: Job) -> bool:
    """Tell whether the job is complete or has failed; then it does not change."""
    return end_condition(job) is not None


def condition(
    condition_type: str, status: str, reason: str, message: str, now: datetime
) -> JobCondition:
    """Return a new condition."""
    time = format_time(now)
    return JobCondition(
        type=condition_type,
        status=status,
        last_probe_time=time,
        last_transition_time=time,
        reason=reason,
        message=message,
    )


def with_condition(
    conditions: tuple[JobCondition, ...] | None, new: JobCondition
) -> tuple[JobCondition, ...] | None:
    """Return the conditions with a new one (ensureJobConditionStatus).

    A present condition with the same status, reason and message is kept, with its
    times. A false condition is not added: its absence means the same.
    """
    present = find_condition(conditions, new.type)
    if present is None:
        return conditions if new.status == "False" else (*(conditions or ()), new)
    if (present.status, present.reason, present.message) == (
        new.status,
        new.reason,
        new.message,
    ):
        return conditions
    return tuple(new if each is present else each for each in conditions or ())
