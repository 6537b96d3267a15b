"""Validation of the status of a job (batch/validation, registry/batch/job).

Many rules apply only if the write changes a field of the rule. So a status that broke
a rule before can still be written while those fields stay the same.
"""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.statuses import Cause, shown
from controller_manager.devcluster.validation.text import table

from .index_intervals import Interval, first_common_index, parse_indexes

_FINISHED: Final = frozenset(("Complete", "Failed"))


class _Change:
    """The status of a job before and after a write, and the spec it belongs to."""

    def __init__(self, old: JSON, new: JSON) -> None:
        self.spec: JSON = new["spec"]
        self.before: JSON = old.get("status", {})
        self.after: JSON = new.get("status", {})
        self.had = _true_conditions(self.before)
        self.has = _true_conditions(self.after)
        self.limited = "backoffLimitPerIndex" in self.spec

    def switches(self, *conditions: str) -> bool:
        """Tell whether one of the conditions becomes true or stops being true."""
        return any((each in self.had) != (each in self.has) for each in conditions)

    def changes(self, *names: str) -> bool:
        """Tell whether one of the fields of the status changes."""
        return any(self.before.get(name) != self.after.get(name) for name in names)

    def ended_with(self, name: str) -> bool:
        """Tell whether the job has ended, now or before the field changed."""
        ends = bool(self.had & _FINISHED) != bool(self.has & _FINISHED)
        return bool(self.has & _FINISHED) and (ends or self.changes(name))

    def all_true(self, *conditions: str) -> bool:
        """Tell whether all of the conditions are true after the write."""
        return self.has.issuperset(conditions)

    def only(self, condition: str, other: str) -> bool:
        """Tell whether one condition is true without the other."""
        return condition in self.has and other not in self.has


def _true_conditions(status: JSON) -> frozenset[str]:
    return frozenset(
        each.get("type", "")
        for each in status.get("conditions", [])
        if each.get("status") == "True"
    )


def _conditions(detail: str) -> Cause:
    return statuses.invalid_field("status.conditions", detail)


def _final(write: _Change) -> Iterator[Cause]:
    """Check that a job does not end in two ways, and announces its end."""
    for name in ("Failed", "FailureTarget"):
        if write.all_true("Complete", name) and write.switches("Complete", name):
            yield _conditions(f"cannot set Complete=True and {name}=true conditions")
    yield from _completion_time(write)
    if write.only("Failed", "FailureTarget") and (
        write.switches("Failed") or write.changes("failedIndexes")
    ):
        why = "cannot set Failed=True condition without the FailureTarget=true"
        yield _conditions(f"{why} condition")
    if write.only("Complete", "SuccessCriteriaMet") and write.switches(
        "Complete", "SuccessCriteriaMet"
    ):
        why = "cannot set Complete=True condition without the SuccessCriteriaMet=true"
        yield _conditions(f"{why} condition")


def _completion_time(write: _Change) -> Iterator[Cause]:
    """Check that a job has a completion time if, and only if, it is complete."""
    where, end = "status.completionTime", write.after.get("completionTime")
    complete, start = "Complete" in write.has, write.after.get("startTime")
    if write.switches("Complete") or write.changes("completionTime"):
        if end and not complete:
            why = "cannot set completionTime when there is no Complete=True condition"
            yield statuses.invalid(where, shown(end), why)
        if complete and not end:
            why = "completionTime is required for Complete jobs"
            yield statuses.required(where, why)
    moves = write.changes("startTime", "completionTime")
    if moves and start and end and parse_time(end) < parse_time(start):
        why = "completionTime cannot be set before startTime"
        yield statuses.invalid(where, shown(end), why)


def _ended(write: _Change) -> Iterator[Cause]:
    """Check that a job that has ended had started and has no active or new pods."""
    active = write.after.get("active", 0)
    if active > 0 and write.ended_with("active"):
        why = "active>0 is invalid for finished job"
        yield statuses.invalid("status.active", shown(active), why)
    if "startTime" not in write.after and write.ended_with("startTime"):
        why = "startTime is required for finished job"
        yield statuses.required("status.startTime", why)
    uncounted = write.after.get("uncountedTerminatedPods", {})
    if any(uncounted.values()) and write.ended_with("uncountedTerminatedPods"):
        why = "uncountedTerminatedPods needs to be empty for finished job"
        where = "status.uncountedTerminatedPods"
        yield statuses.invalid(where, shown(uncounted), why)


def _pods(write: _Change) -> Iterator[Cause]:
    """Check that ready pods are active, and that an ended job has none that end."""
    terminating, ready = write.after.get("terminating", 0), write.after.get("ready", 0)
    if terminating > 0 and write.ended_with("terminating"):
        why = "terminating>0 is invalid for finished job"
        yield statuses.invalid("status.terminating", shown(terminating), why)
    if ready > write.after.get("active", 0) and write.changes("ready", "active"):
        why = "cannot set more ready pods than active"
        yield statuses.invalid("status.ready", shown(ready), why)


def _kept(write: _Change) -> Iterator[Cause]:
    """Check that final conditions stay, and are not set too late."""
    for name in ("Failed", "FailureTarget"):
        if write.all_true("SuccessCriteriaMet", name):
            why = f"cannot set SuccessCriteriaMet=True and {name}=true conditions"
            yield _conditions(why)
    if "successPolicy" in write.spec and write.only("Complete", "SuccessCriteriaMet"):
        why = "cannot set Complete=True for Job with SuccessPolicy unless"
        yield _conditions(f"{why} SuccessCriteriaMet=True")
    for name in ("Failed", "Complete", "FailureTarget"):
        if name in write.had - write.has:
            yield _conditions(f"cannot disable the terminal {name}=True condition")


def _grown(write: _Change) -> Iterator[Cause]:
    """Check that counts only grow, except in an elastic job that is made smaller."""
    spec = write.spec
    elastic = spec.get("completionMode") == "Indexed" and (
        spec.get("completions") == spec.get("parallelism")
    )
    for name in ("failed", "succeeded"):
        value = write.after.get(name, 0)
        if value < write.before.get(name, 0) and not (name == "succeeded" and elastic):
            why = f"cannot decrease the {name} counter"
            yield statuses.invalid(f"status.{name}", shown(value), why)


def _times(write: _Change) -> Iterator[Cause]:
    """Check that the times stay; the start may change while the job is suspended."""
    end, before = write.after.get("completionTime"), write.before
    if end and "completionTime" in before and write.changes("completionTime"):
        why = "completionTime cannot be mutated"
        yield statuses.invalid("status.completionTime", shown(end), why)
    resumes = "Suspended" in write.had - write.has or write.spec.get("suspend")
    if "startTime" in before and write.changes("startTime") and not resumes:
        why = "startTime cannot be removed for unsuspended job"
        yield statuses.required("status.startTime", why)
    if "SuccessCriteriaMet" in write.had - write.has:
        yield _conditions("cannot disable the SuccessCriteriaMet=True condition")
    if "SuccessCriteriaMet" in write.has - write.had and "Complete" in write.had:
        why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true"
        yield _conditions(f"{why} conditions")


def _indexes(write: _Change) -> Iterator[Cause]:
    """Check the format of the indexes, and that the job may have them."""
    completions, limited = write.spec.get("completions"), write.limited
    completed = write.after.get("completedIndexes", "")
    failed = write.after.get("failedIndexes")
    for name in ("completedIndexes", "failedIndexes"):
        text, where = write.after.get(name), f"status.{name}"
        checked = name == "completedIndexes" or (limited and text is not None)
        if checked and completions is not None and write.changes(name):
            try:
                parse_indexes(text or "", completions)
            except ValueError as error:
                why = f"error parsing {name}: {error}"
                yield statuses.invalid(where, shown(text or ""), why)
    indexed = write.spec.get("completionMode") == "Indexed"
    if completed and not indexed and write.changes("completedIndexes"):
        why = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield statuses.invalid("status.completedIndexes", shown(completed), why)
    if failed is None or not write.changes("failedIndexes", "completedIndexes"):
        return
    if not limited and write.changes("failedIndexes"):
        why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield statuses.invalid("status.failedIndexes", shown(failed), why)
    if completions is not None:
        yield from _overlap(completed, failed, completions)


def _overlap(completed: str, failed: str, completions: int) -> Iterator[Cause]:
    common = first_common_index(
        _readable(completed, completions), _readable(failed, completions)
    )
    if common is not None:
        why = f"failedIndexes and completedIndexes overlap at index: {common}"
        yield statuses.invalid("status.failedIndexes", shown(failed), why)


def _readable(text: str, completions: int) -> list[Interval]:
    """Return the intervals that can be read; the format is checked elsewhere."""
    found: list[Interval] = []
    for part in text.split(",") if text else ():
        try:
            found += parse_indexes(part, completions)
        except ValueError:
            continue
    return found


def _uncounted(uncounted: JSON, path: str, _: JSON) -> Iterator[Cause]:
    seen: set[str] = set()
    for name in ("succeeded", "failed"):
        for number, uid in enumerate(uncounted.get(name, [])):
            where = f"{path}{name}[{number}]"
            if not uid:
                yield statuses.invalid(where, shown(uid), "must not be empty")
            elif uid in seen:
                yield statuses.duplicate(where, shown(uid))
            seen.add(uid)


def _change(job: JSON, _: str, old: JSON) -> Iterator[Cause]:
    write = _Change(old, job)
    for check in (_final, _ended, _indexes, _pods, _kept, _grown, _times):
        yield from check(write)


JOB_STATUS_UPDATE: Final = table(
    """
    status:
      active, succeeded, failed, ready, terminating: not-negative
      uncountedTerminatedPods:
        hook uncounted
    hook change
    """,
    _uncounted,
    _change,
)
