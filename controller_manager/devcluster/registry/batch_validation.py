"""The rules for jobs, their changes and their status (batch/validation)."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.statuses import Cause, shown
from controller_manager.devcluster.validation.text import table
from controller_manager.devcluster.validation.values import NOT_NEGATIVE

from .kinds import true_conditions

# Sets of indexes as texts such as ``0-2,5`` (batch/validation).


class Interval(NamedTuple):
    """The indexes from `first` to `last`, both included."""

    first: int
    last: int


def parse_indexes(text: str, completions: int) -> list[Interval]:
    """Return the intervals of a text, in its order.

    `completions` is the number of indexes that the job has. Raises ValueError, whose
    text is upstream's, for a text that is malformed or names other indexes.
    """
    if not text:
        return []
    intervals = [_interval(part, completions) for part in text.split(",")]
    for before, after in pairwise(intervals):
        if before.last >= after.first:
            raise ValueError(_not_increasing(before.last, after.first))
    return intervals


def total(intervals: list[Interval]) -> int:
    """Return the number of indexes in the intervals."""
    return sum(each.last - each.first + 1 for each in intervals)


def first_common_index(one: list[Interval], other: list[Interval]) -> int | None:
    """Return the lowest index that is in both lists; `None` if there is none."""
    rest, others = list(reversed(one)), list(reversed(other))
    while rest and others:
        left, right = rest[-1], others[-1]
        if left.first <= right.last and right.first <= left.last:
            return max(left.first, right.first)
        (rest if left.first <= right.first else others).pop()
    return None


def _interval(text: str, completions: int) -> Interval:
    parts = text.split("-")
    if len(parts) > 2:
        why = (
            f'the fragment "{text}" violates the requirement that an index interval '
            "can have at most two parts separated by '-'"
        )
        raise ValueError(why)
    first = _index(parts[0], completions)
    if len(parts) == 1:
        return Interval(first, first)
    last = _index(parts[1], completions)
    if first >= last:
        raise ValueError(_not_increasing(first, last))
    return Interval(first, last)


def _index(text: str, completions: int) -> int:
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()):
        why = f'cannot convert string to integer for index: "{text}"'
        raise ValueError(why)
    index = int(digits)
    if index >= completions:
        why = f'too large index: "{text}"'
        raise ValueError(why)
    return index


def _not_increasing(previous: int, current: int) -> str:
    return f"non-increasing order, previous: {previous}, current: {current}"


# The rules for the specs of jobs, and for their changes (batch/validation).

_LONGEST_INDEXES: Final = 64 * 1024
_MOST_VALUES: Final = 255
_SCHEDULING: Final = ("nodeSelector", "tolerations", "schedulingGates", "affinity")


# Failure policy


def _names_no_container(exit_codes: JSON, spec: JSON) -> bool:
    pod, name = spec["template"]["spec"], exit_codes.get("containerName")
    containers = (*pod.get("containers", ()), *pod.get("initContainers", ()))
    return name is not None and all(name != each.get("name") for each in containers)


def _exit_values(exit_codes: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check that exit codes are ordered and unique, and that success is no failure."""
    values, where = exit_codes.get("values", []), f"{path}values"
    if not values:
        yield statuses.invalid(where, "null", "at least one value is required")
    elif len(values) > _MOST_VALUES:
        yield statuses.too_many(where, len(values), _MOST_VALUES)
    for number, value in enumerate(values):
        if exit_codes.get("operator") == "In" and value == 0:
            why = "must not be 0 for the In operator"
            yield statuses.invalid(f"{where}[{number}]", shown(value), why)
        if value in values[:number]:
            yield statuses.duplicate(f"{where}[{number}]", shown(value))
    if any(before > after for before, after in pairwise(values)):
        yield statuses.invalid(where, shown(values), "must be ordered")


# Success policy


def _success_rule(rule: JSON, path: str, spec: JSON) -> Iterator[Cause]:
    """Compare the count of a rule with its indexes and with the completions."""
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    completions, number = spec.get("completions", 0), 0
    if count is None and indexes is None:
        why = "at least one of succeededCount or succeededIndexes must be specified"
        yield statuses.required(path[:-1], why)
    if indexes is not None:
        where = f"{path}succeededIndexes"
        if len(indexes) > _LONGEST_INDEXES:
            yield statuses.too_long(where, _LONGEST_INDEXES)
        try:
            number = total(parse_indexes(indexes, completions))
        except ValueError as error:
            why = f"error parsing succeededIndexes: {error}"
            yield statuses.invalid(where, shown(indexes), why)
    if count is None:
        return
    where = f"{path}succeededCount"
    if count < 0:
        yield statuses.invalid(where, shown(count), NOT_NEGATIVE)
    limits = [(completions, "the number of specified completions")]
    if indexes is not None:
        what = "the number of indexes in the specified succeededIndexes field"
        limits.append((number, what))
    for most, what in limits:
        if count > most:
            why = f"must be less than or equal to {most} ({what})"
            yield statuses.invalid(where, shown(count), why)


# Spec


def _restart_policy(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    policy = spec["template"]["spec"].get("restartPolicy", "Always")
    where = f"{path}template.spec.restartPolicy"
    if policy == "Always":
        yield statuses.required(where, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield statuses.not_supported(where, shown(policy), ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        yield statuses.invalid(where, shown(policy), why)


JOB_SPEC: Final = table("""
    parallelism, completions, activeDeadlineSeconds, backoffLimit: not-negative
    ttlSecondsAfterFinished, backoffLimitPerIndex, maxFailedIndexes: not-negative
    backoffLimitPerIndex: required pointer if has maxFailedIndexes
      "when maxFailedIndexes is specified"
    managedBy: domain-path pointer
    managedBy: longest 63
    completionMode: enum NonIndexed Indexed
    when completionMode is Indexed:
      completions: required pointer "when completion mode is Indexed"
      parallelism: at-most 100000
        "must be less than or equal to 100000 when completion mode is Indexed"
      maxFailedIndexes: invalid if has maxFailedIndexes and has completions
        and maxFailedIndexes above completions
        "must be less than or equal to completions"
      maxFailedIndexes: at-most 100000
      when completions above 100000 and has backoffLimitPerIndex:
        maxFailedIndexes: required pointer
          "must be specified when completions is above 100000"
        parallelism, maxFailedIndexes: at-most 10000
          "must be less than or equal to 10000 when completions are above 100000"
          "and used with backoff limit per index"
    when completionMode is NonIndexed null:
      backoffLimitPerIndex, maxFailedIndexes: refused
        "requires indexed completion mode"
    podFailurePolicy:
      rules: most 20
      rules[] outer:
        when action is FailIndex and outer lacks backoffLimitPerIndex:
          action: invalid "requires the backoffLimitPerIndex to be set"
        else:
          action: one-of Count FailIndex FailJob Ignore
        onExitCodes outer:
          operator: one-of In NotIn
          containerName: invalid if names_no_container
            "must be one of the container or initContainer names in the pod template"
          hook exit_values
        onPodConditions: most 20
        onPodConditions[]:
          type: qualified default empty
          status: one-of False True Unknown
        self: error if has onExitCodes and has onPodConditions
          "specifying both OnExitCodes and OnPodConditions is not supported"
        self: error if lacks onExitCodes onPodConditions
          "specifying one of OnExitCodes and OnPodConditions is required"
    when completionMode is Indexed:
      successPolicy:
        rules: required
          "at least one rules must be specified when the successPolicy is specified"
        rules: most 20
        rules[] outer:
          hook success_rule
    else:
      successPolicy: refused "requires indexed completion mode"
    when has podFailurePolicy:
      podReplacementPolicy: enum Failed
    else:
      podReplacementPolicy: enum Failed TerminatingOrFailed
    include POD_TEMPLATE
    hook restart_policy
    """)
"""The spec of a job, without its selector."""


# Updates


def _completions(spec: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check that an Indexed job changes its completions with its parallelism only."""
    completions, before = spec.get("completions"), old.get("completions")
    if completions not in (None, before, spec.get("parallelism")):
        why = "can only be modified in tandem with spec.parallelism"
        yield statuses.invalid(f"{path}completions", shown(completions), why)


def _template_changes(job: JSON, old: JSON) -> bool:
    """Tell whether a job changes fields of its template that are immutable now.

    A job that is suspended and has no active pods may change where its pods run, and
    their resources. Upstream's feature gates are
    MutableSchedulingDirectivesForSuspendedJobs and
    MutablePodResourcesForSuspendedJobs, both on by default since 1.36.
    """
    before, after = old["spec"]["template"], job["spec"]["template"]
    status = old.get("status", {})
    stopped = "startTime" not in status or "Suspended" in true_conditions(old)
    if old["spec"].get("suspend") and stopped and not status.get("active"):
        before, after = _without_mutable_fields(before), _without_mutable_fields(after)
    return bool(before != after)


def _without_mutable_fields(template: JSON) -> JSON:
    given, pod = template.get("metadata", {}), template["spec"]
    metadata = {
        name: value
        for name, value in given.items()
        if name not in ("labels", "annotations")
    }
    spec = {name: value for name, value in pod.items() if name not in _SCHEDULING}
    affinity = {**pod.get("affinity", {})}
    affinity.pop("nodeAffinity", None)
    if affinity:
        spec["affinity"] = affinity
    for name in ("containers", "initContainers"):
        if name in spec:
            spec[name] = [{**each, "resources": {}} for each in spec[name]]
    return {**template, "metadata": metadata, "spec": spec}


JOB_UPDATE: Final = table("""
    spec change:
      when completionMode is Indexed:
        hook completions
      else:
        completions: immutable
      selector: immutable
    when template_changes:
      spec change:
        template: immutable
    spec change:
      completionMode, podFailurePolicy, backoffLimitPerIndex: immutable
      managedBy, successPolicy: immutable
    """)


# Validation of the status of a job (batch/validation, registry/batch/job).

_FINISHED: Final = frozenset(("Complete", "Failed"))


class _Change:
    """The status of a job before and after a write, and the spec it belongs to."""

    def __init__(self, old: JSON, new: JSON) -> None:
        self.spec: JSON = new["spec"]
        self.before: JSON = old.get("status", {})
        self.after: JSON = new.get("status", {})
        self.had, self.has = true_conditions(old), true_conditions(new)
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


JOB_STATUS_UPDATE: Final = table("""
    status:
      active, succeeded, failed, ready, terminating: not-negative
      uncountedTerminatedPods:
        hook uncounted
    hook change
    """)
