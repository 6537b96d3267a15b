"""Validation of the completed and the failed indexes in a job's status."""

from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown

from .index_intervals import Interval, first_common_index, parse_indexes
from .status_change import JobStatusChange


def validate_indexes(change: JobStatusChange) -> list[Cause]:
    """Check the format of the indexes, and that the job may have them."""
    completed = change.after.get("completedIndexes", "")
    failed = change.after.get("failedIndexes")
    limited = "backoffLimitPerIndex" in change.spec
    causes = []
    if change.changes("completedIndexes"):
        causes += _format(change, "completedIndexes", completed)
    if change.changes("failedIndexes") and limited and failed is not None:
        causes += _format(change, "failedIndexes", failed)
    indexed = change.spec.get("completionMode") == "Indexed"
    if change.changes("completedIndexes") and completed and not indexed:
        detail = "cannot set non-empty completedIndexes when non-indexed completion"
        where = "status.completedIndexes"
        causes.append(invalid(where, shown(completed), f"{detail} mode"))
    if change.changes("failedIndexes") and failed is not None and not limited:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        causes.append(invalid("status.failedIndexes", shown(failed), detail))
    if change.changes("failedIndexes", "completedIndexes") and failed is not None:
        causes += _overlap(change, completed, failed)
    return causes


def _format(change: JobStatusChange, name: str, text: str) -> list[Cause]:
    completions = change.spec.get("completions")
    if completions is None:
        return []
    try:
        parse_indexes(text, completions)
    except ValueError as error:
        detail = f"error parsing {name}: {error}"
        return [invalid(f"status.{name}", shown(text), detail)]
    return []


def _overlap(change: JobStatusChange, completed: str, failed: str) -> list[Cause]:
    completions = change.spec.get("completions")
    if completions is None:
        return []
    common = first_common_index(
        _readable(completed, completions), _readable(failed, completions)
    )
    if common is None:
        return []
    detail = f"failedIndexes and completedIndexes overlap at index: {common}"
    return [invalid("status.failedIndexes", shown(failed), detail)]


def _readable(text: str, completions: int) -> list[Interval]:
    """Return the intervals that can be read; the format is checked elsewhere."""
    found: list[Interval] = []
    for part in text.split(",") if text else ():
        try:
            found += parse_indexes(part, completions)
        except ValueError:
            continue
    return found
