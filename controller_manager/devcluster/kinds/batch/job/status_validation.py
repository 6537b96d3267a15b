"""Validation of the status of a job (batch/validation, registry/batch/job).

Many rules apply only if the write changes a field of the rule. So a status that broke
a rule before can still be written while those fields stay the same.
"""

from itertools import chain
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.devcluster.kinds.field_values import validate_not_negative
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    invalid,
    invalid_field,
    required,
    shown,
)

from .indexes_validation import validate_indexes
from .status_change import JobStatusChange

_COUNTS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_FINISHED: Final = ("Complete", "Failed")
_TERMINAL: Final = ("Failed", "Complete", "FailureTarget")


def validate_job_status(old: JSON, new: JSON) -> list[Cause]:
    """Check the new status of a job, and its changes."""
    change = JobStatusChange(old, new)
    return [
        *validate_not_negative(change.after, *_COUNTS, field="status"),
        *_uncounted(change.after.get("uncountedTerminatedPods", {})),
        *_conflicting_conditions(change),
        *_completion_time(change),
        *_earlier_conditions(change),
        *_finished(change),
        *validate_indexes(change),
        *_ready(change),
        *_success_criteria(change),
        *_disabled_conditions(change),
        *_decreased_counts(change),
        *_changed_times(change),
        *_late_success_criteria(change),
    ]


def _conditions(detail: str) -> Cause:
    return invalid_field("status.conditions", detail)


def _uncounted(uncounted: JSON) -> list[Cause]:
    causes = []
    seen: set[str] = set()
    for name in ("succeeded", "failed"):
        for number, uid in enumerate(uncounted.get(name, [])):
            field = f"status.uncountedTerminatedPods.{name}[{number}]"
            if not uid:
                causes.append(invalid(field, shown(uid), "must not be empty"))
            elif uid in seen:
                causes.append(duplicate(field, shown(uid)))
            seen.add(uid)
    return causes


def _conflicting_conditions(change: JobStatusChange) -> list[Cause]:
    """Check that a job is not complete and failed."""
    causes = []
    complete = change.is_true("Complete")
    if complete and change.is_true("Failed") and change.switches(*_FINISHED):
        detail = "cannot set Complete=True and Failed=true conditions"
        causes.append(_conditions(detail))
    both = complete and change.is_true("FailureTarget")
    if both and change.switches("Complete", "FailureTarget"):
        detail = "cannot set Complete=True and FailureTarget=true conditions"
        causes.append(_conditions(detail))
    return causes


def _completion_time(change: JobStatusChange) -> list[Cause]:
    """Check that a job has a completion time if, and only if, it is complete."""
    field, causes = "status.completionTime", []
    time, complete = change.after.get("completionTime"), change.is_true("Complete")
    if change.switches("Complete") or change.changes("completionTime"):
        if time and not complete:
            detail = (
                "cannot set completionTime when there is no Complete=True condition"
            )
            causes.append(invalid(field, shown(time), detail))
        if complete and not time:
            detail = "completionTime is required for Complete jobs"
            causes.append(required(field, detail))
    start = change.after.get("startTime")
    moves = change.changes("startTime", "completionTime")
    if moves and start and time and parse_time(time) < parse_time(start):
        detail = "completionTime cannot be set before startTime"
        causes.append(invalid(field, shown(time), detail))
    return causes


def _earlier_conditions(change: JobStatusChange) -> list[Cause]:
    """Check that the condition that announces a final condition is true."""
    causes = []
    failed = change.is_true("Failed") and not change.is_true("FailureTarget")
    if failed and (change.switches("Failed") or change.changes("failedIndexes")):
        detail = "cannot set Failed=True condition without the FailureTarget=true"
        causes.append(_conditions(f"{detail} condition"))
    complete = change.is_true("Complete") and not change.is_true("SuccessCriteriaMet")
    if complete and change.switches("Complete", "SuccessCriteriaMet"):
        detail = "cannot set Complete=True condition without the SuccessCriteriaMet"
        causes.append(_conditions(f"{detail}=true condition"))
    return causes


def _finished(change: JobStatusChange) -> list[Cause]:
    """Check that a finished job had started and has no active or uncounted pod."""
    if not any(change.is_true(each) for each in _FINISHED):
        return []
    finishes, after, causes = change.finishes, change.after, []
    active = after.get("active", 0)
    if active > 0 and (finishes or change.changes("active")):
        detail = "active>0 is invalid for finished job"
        causes.append(invalid("status.active", shown(active), detail))
    if not after.get("startTime") and (finishes or change.changes("startTime")):
        detail = "startTime is required for finished job"
        causes.append(required("status.startTime", detail))
    uncounted = after.get("uncountedTerminatedPods", {})
    touched = finishes or change.changes("uncountedTerminatedPods")
    if touched and any(chain.from_iterable(uncounted.values())):
        field = "status.uncountedTerminatedPods"
        detail = "uncountedTerminatedPods needs to be empty for finished job"
        causes.append(invalid(field, shown(uncounted), detail))
    return causes


def _ready(change: JobStatusChange) -> list[Cause]:
    """Check that ready pods are active, and that a finished job has no pods."""
    causes, after = [], change.after
    terminating = after.get("terminating", 0)
    finished = any(change.is_true(each) for each in _FINISHED)
    touched = change.finishes or change.changes("terminating")
    if terminating > 0 and finished and touched:
        detail = "terminating>0 is invalid for finished job"
        causes.append(invalid("status.terminating", shown(terminating), detail))
    ready = after.get("ready", 0)
    if ready > after.get("active", 0) and change.changes("ready", "active"):
        detail = "cannot set more ready pods than active"
        causes.append(invalid("status.ready", shown(ready), detail))
    return causes


def _success_criteria(change: JobStatusChange) -> list[Cause]:
    """Check that a job does not fail after it met its success criteria."""
    causes = []
    met = change.is_true("SuccessCriteriaMet")
    for condition, text in (("Failed", "Failed"), ("FailureTarget", "FailureTarget")):
        if met and change.is_true(condition):
            detail = f"cannot set SuccessCriteriaMet=True and {text}=true conditions"
            causes.append(_conditions(detail))
    if "successPolicy" in change.spec and not met and change.is_true("Complete"):
        detail = (
            "cannot set Complete=True for Job with SuccessPolicy unless "
            "SuccessCriteriaMet=True"
        )
        causes.append(_conditions(detail))
    return causes


def _disabled_conditions(change: JobStatusChange) -> list[Cause]:
    return [
        _conditions(f"cannot disable the terminal {condition}=True condition")
        for condition in _TERMINAL
        if change.was_true(condition) and not change.is_true(condition)
    ]


def _decreased_counts(change: JobStatusChange) -> list[Cause]:
    """Check that counts only grow, except in an elastic job that is made smaller."""
    spec = change.spec
    elastic = spec.get("completionMode") == "Indexed" and (
        spec.get("completions") == spec.get("parallelism")
    )
    causes = []
    for name in ("failed", "succeeded"):
        value = change.after.get(name, 0)
        if value < change.before.get(name, 0) and not (name == "succeeded" and elastic):
            detail = f"cannot decrease the {name} counter"
            causes.append(invalid(f"status.{name}", shown(value), detail))
    return causes


def _changed_times(change: JobStatusChange) -> list[Cause]:
    """Check that the times do not change.

    The start time may change while the job is suspended, and when it is resumed.
    """
    causes = []
    before, after = change.before, change.after
    time = after.get("completionTime")
    if time and before.get("completionTime") and change.changes("completionTime"):
        detail = "completionTime cannot be mutated"
        causes.append(invalid("status.completionTime", shown(time), detail))
    moves = before.get("startTime") and change.changes("startTime")
    resumes = change.was_true("Suspended") and not change.is_true("Suspended")
    if moves and not resumes and not change.spec.get("suspend"):
        detail = "startTime cannot be removed for unsuspended job"
        causes.append(required("status.startTime", detail))
    return causes


def _late_success_criteria(change: JobStatusChange) -> list[Cause]:
    had, has = (
        change.was_true("SuccessCriteriaMet"),
        change.is_true("SuccessCriteriaMet"),
    )
    if had and not has:
        detail = "cannot disable the SuccessCriteriaMet=True condition"
        return [_conditions(detail)]
    if has and not had and change.was_true("Complete"):
        detail = (
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true "
            "conditions"
        )
        return [_conditions(detail)]
    return []
