"""The finished jobs to delete, beyond the history limits (cleanupFinishedJobs)."""

from collections.abc import Iterator

from controller_manager.api.batch.v1 import COMPLETE, FAILED, Job
from controller_manager.api.meta import is_deleting

from .jobs import by_start, end_of
from .view import View


def surplus(view: View) -> Iterator[Job]:
    """Yield the oldest finished jobs beyond the limits, succeeded ones first.

    Jobs that are being deleted do not count any more.
    """
    spec = view.cron_job.spec
    yield from _beyond(spec.successful_jobs_history_limit, COMPLETE, view)
    yield from _beyond(spec.failed_jobs_history_limit, FAILED, view)


def _beyond(limit: int | None, end: str, view: View) -> Iterator[Job]:
    if limit is None:
        return
    kept = [job for job in view.jobs if end_of(job) == end and not is_deleting(job)]
    kept.sort(key=by_start)
    yield from kept[: max(0, len(kept) - limit)]
