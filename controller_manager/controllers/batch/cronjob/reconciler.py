"""Watches and caches of the cron job controller.

Upstream: pkg/controller/cronjob of v1.36 (cronjob_controllerv2.go). `decide` makes the
decision of a sync, and `apply` carries it out.
"""

import os

from controller_manager.api.batch.v1 import CRON_JOBS, JOBS, CronJob, Job
from controller_manager.api.meta import key_of
from controller_manager.client.events import WARNING
from controller_manager.control.decision import decide_and_apply
from controller_manager.control.takeover import Takeover
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import Failed, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Owns
from controller_manager.schedules.errors import ScheduleError
from controller_manager.schedules.zones import local_zone

from .apply import CronJobApplier
from .decide import decide
from .metrics import CronJobMetrics
from .options import CronJobOptions
from .schedule import seconds_until_next, zone_problem
from .tracker import CronJobTracker
from .view import View


class CronJobReconciler(Reconciler[CronJob]):
    """Creates a job at each time of a cron job's schedule."""

    queue_name = "cronjob"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.workers = context.config.of(CronJobOptions).concurrent_syncs
        self._local = local_zone(os.environ)
        takeover = Takeover(
            context.server_clock,
            elected=context.config.generic.leader_election.leader_elect,
        )
        self._tracker = CronJobTracker(self.lister(JOBS), takeover)
        self._applier = CronJobApplier(
            context.client,
            context.recorder,
            context.metrics.of(CronJobMetrics),
            self._tracker,
        )

    def _update_delay(self, old: CronJob, new: CronJob) -> float:
        """Return the seconds until the next run if the schedule has changed.

        A changed schedule starts no run at once, even if a run of the past now looks
        missed (updateCronJob). With a time zone that does not exist no run can start,
        and the sync that reports it does not wait.
        """
        if (old.spec.schedule, old.spec.time_zone) == (
            new.spec.schedule,
            new.spec.time_zone,
        ):
            return 0.0
        try:
            seconds = seconds_until_next(new, self._local, self.clock.now()) or 0.0
            return 0.0 if zone_problem(new) is not None else seconds
        except ScheduleError:
            message = f"unparseable schedule for cronjob: {new.spec.schedule}"
            reason = "UnParseableCronJobSchedule"
            self.recorder.event(CRON_JOBS, new, WARNING, reason, message)
            return 0.0

    watches = (For(CRON_JOBS, update_delay=_update_delay), Owns(JOBS))

    async def reconcile(self, cron_job: CronJob) -> Outcome:
        """Start the run that is due, and keep status and history up to date."""
        view = View(
            cron_job,
            tuple(self._tracker.shown_jobs(cron_job)),
            local=self._local,
            may_be_behind=self._tracker.takeover.must_recheck(cron_job),
        )
        try:
            return await decide_and_apply(
                view, decide, self._applier, self.clock, self.logger
            )
        except Exception as error:  # noqa: BLE001 - the worker reports it
            return Failed(error, self._next_run(cron_job))

    def _next_run(self, cron_job: CronJob) -> float | None:
        """Return the seconds until the next run, `None` if there is none."""
        try:
            return seconds_until_next(cron_job, self._local, self.clock.now())
        except ScheduleError:
            return None

    def starting(self) -> None:
        """Note that this process starts to lead."""
        self._tracker.takeover.start_leading()

    def dependent_gone(self, key: str, obj: Job) -> None:
        """Note that the cache shows the deletion of a job."""
        self._tracker.note_gone(key, obj.metadata.uid)

    def deleted(self, obj: CronJob) -> None:
        """Drop the state of a cron job, so that a new one of its name starts anew."""
        self.forget(key_of(obj))

    def forget(self, key: str) -> None:
        """Drop the state of a cron job that is gone."""
        self._tracker.forget(key)
