"""Deletes finished jobs when they expire (ttlafterfinished_controller.go)."""

from datetime import datetime, timedelta
from typing import Final

from prometheus_client import CollectorRegistry, Histogram

from controller_manager.api.batch.v1 import JOBS, Job, end_condition
from controller_manager.api.meta import is_deleting, key_of
from controller_manager.api.scalars import parse_time
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from controller_manager.client.rest.errors import NotFound
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Done, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For

from . import TTLAfterFinishedOptions

_DELETION_SECONDS: Final = tuple(0.1 * 2**power for power in range(14))


def _deletion_delay(registry: CollectorRegistry) -> Histogram:
    return Histogram(
        "ttl_after_finished_controller_job_deletion_duration_seconds",
        "Seconds from the time that a job is to be deleted until it is",
        buckets=_DELETION_SECONDS,
        registry=registry,
    )


def expires_at(job: Job) -> datetime | None:
    """Return the time at which a job expires; `None` without a TTL, or before its end.

    Raises SyncError for a finished job without a finish time.
    """
    ttl = job.spec.ttl_seconds_after_finished
    if ttl is None or is_deleting(job):
        return None
    condition = end_condition(job)
    if condition is None:
        return None
    if not condition.last_transition_time:
        msg = f"unable to find the time when the Job {key_of(job)} finished"
        raise SyncError(msg)
    return parse_time(condition.last_transition_time) + timedelta(seconds=ttl)


def _may_expire(job: Job) -> bool:
    return job.spec.ttl_seconds_after_finished is not None and not is_deleting(job)


class TTLAfterFinishedReconciler(Reconciler[Job]):
    """Deletes finished jobs when their ttlSecondsAfterFinished have passed."""

    watches = (For(JOBS, when=_may_expire),)
    queue_name = "ttl_jobs_to_delete"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.workers = context.config.of(TTLAfterFinishedOptions).concurrent_syncs
        self._delay = context.metrics.of(_deletion_delay)

    async def reconcile(self, job: Job) -> Outcome:
        """Delete the job if it has expired, else requeue it for that time."""
        if (early := self._too_early(job)) is not None:
            return early
        # The cache may not show yet that a user raised the TTL.
        namespace, name = job.metadata.namespace, job.metadata.name
        try:
            fresh = await self.client.get(JOBS, namespace, name)
        except NotFound:
            return DONE
        if (early := self._too_early(fresh)) is not None:
            return early
        options = DeleteOptions(propagation_policy=PropagationPolicy.FOREGROUND)
        try:
            await self.client.delete_exactly(JOBS, fresh, options)
        except NotFound:
            return DONE
        if (due := expires_at(fresh)) is not None:
            self._delay.observe((self.clock.now() - due).total_seconds())
        return DONE

    def _too_early(self, job: Job) -> Done | None:
        """Return the outcome for a job that has not expired, else `None`."""
        due = expires_at(job)
        if due is None:
            return DONE
        left = (due - self.clock.now()).total_seconds()
        return Done(left) if left > 0 else None
