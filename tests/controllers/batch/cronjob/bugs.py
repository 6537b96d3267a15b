"""Deliberate bugs of the cron job controller."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from controller_manager.api.batch.v1 import CronJob
from controller_manager.api.scalars import parse_time
from controller_manager.controllers.batch.cronjob import controller, jobs, schedule
from tests.simulation.planted import Bug


def _since_it_was_created(cron_job: CronJob) -> datetime:
    """Forget that runs have started."""
    return parse_time(cron_job.metadata.creation_timestamp or "")


BUGS: Final[Mapping[str, Bug]] = {
    "start a run beside an active job": Bug(1, controller, "_FORBID", "Never"),
    "forget jobs that are not listed": Bug(
        0, jobs, "is_of_a_run", lambda _: False, "run-beside-a-forgotten-one"
    ),
    "start a run again": Bug(1, schedule, "_last_run", _since_it_was_created),
    "delete jobs that run": Bug(1, controller, "surplus", lambda known: known.jobs),
    "keep all finished jobs": Bug(1, controller, "surplus", lambda _: ()),
}
