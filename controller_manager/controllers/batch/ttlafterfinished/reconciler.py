"""When a job may go, and its deletion (ttlafterfinished_controller.go)."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.meta import is_deleting, key_of, split_key
from controller_manager.api.times import parse_time
from controller_manager.client.client import DeleteOptions, PropagationPolicy
from controller_manager.client.errors import NotFound
from controller_manager.informers.informer import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.outcome import DONE, Done, Outcome, SyncError

_ENDS: Final = frozenset(("Complete", "Failed"))


def init_ttl_after_finished_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informer (newTTLAfterFinishedController)."""
    controller = TTLAfterFinishedController(context)
    count = context.config.ttl_after_finished.concurrent_syncs
    return context.workers(
        controller.queue, controller.sync, count, on_start=controller.begin
    )


def expires_at(job: Job) -> datetime | None:
    """Return when a job is to be deleted; `None` if nobody has asked for that yet.

    Raises SyncError for one that has ended without saying when.
    """
    ttl = job.spec.ttl_seconds_after_finished
    if ttl is None or is_deleting(job):
        return None
    for condition in job.status.conditions or ():
        if condition.type in _ENDS and condition.status == "True":
            if not condition.last_transition_time:
                msg = f"unable to find the time when the Job {key_of(job)} finished"
                raise SyncError(msg)
            return parse_time(condition.last_transition_time) + timedelta(seconds=ttl)
    return None


class TTLAfterFinishedController:
    """Deletes ended jobs when their ttlSecondsAfterFinished are over."""

    def __init__(self, context: ControllerContext) -> None:
        """Take the context and watch jobs."""
        self.queue = context.queue("ttl_jobs_to_delete")
        self._client = context.client
        self._clock = context.clock
        self._metrics = context.metrics.ttl_after_finished
        self._jobs = context.informers.informer(JOBS)
        self._jobs.add_handler(
            Handler(on_add=self._enqueue, on_update=lambda _, new: self._enqueue(new))
        )

    def begin(self) -> Iterator[None]:
        """Begin to act: look at every job once."""
        for job in self._jobs.store:
            self._enqueue(job)
            yield

    def _enqueue(self, job: Job) -> None:
        if job.spec.ttl_seconds_after_finished is not None and not is_deleting(job):
            self.queue.add(key_of(job))

    async def sync(self, key: str) -> Outcome:
        """Delete the job of `key` if its time has come, else wait for it."""
        job = self._jobs.store.get(key)
        if job is None:
            return DONE
        if (early := self._too_early(job)) is not None:
            return early
        # The cache may not know yet that somebody gave it more time.
        namespace, name = split_key(key)
        try:
            fresh = await self._client.get(JOBS, namespace, name)
        except NotFound:
            return DONE
        if (early := self._too_early(fresh)) is not None:
            return early
        options = DeleteOptions(
            propagation_policy=PropagationPolicy.FOREGROUND, uid=fresh.metadata.uid
        )
        try:
            await self._client.delete(JOBS, namespace, name, options)
        except NotFound:
            return DONE
        if (due := expires_at(fresh)) is not None:
            self._metrics.deleted((self._clock.now() - due).total_seconds())
        return DONE

    def _too_early(self, job: Job) -> Done | None:
        """Return the outcome of a sync that comes before a job's time."""
        due = expires_at(job)
        if due is None:
            return DONE
        left = (due - self._clock.now()).total_seconds()
        return Done(left) if left > 0 else None
