"""The run of a cron job that is due, and the time of the next run."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from msgspec import Struct

from controller_manager.api.batch.v1 import CronJob
from controller_manager.api.scalars import parse_time
from controller_manager.client.events.recorder import WARNING
from controller_manager.schedules.fields import ScheduleError
from controller_manager.schedules.parsing import Schedule, names_a_zone, parse_in_zone
from controller_manager.schedules.quoting import quoted
from controller_manager.schedules.runs import all_runs, next_run, runs_between
from controller_manager.schedules.zones import ZoneError, load_zone

_DELTA: Final = timedelta(milliseconds=100)
"""The delay of a sync after the time of a run, so that no clock is early."""

_LAG: Final = timedelta(minutes=15)
"""The longest time by which the caches of a new leader are behind."""

_ZONE_IN_SCHEDULE: Final = (
    "CRON_TZ or TZ used in schedule {} is not officially supported, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more "
    "details"
)


_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The earliest run that can be missed, also if a status has an earlier time."""


CronJobEvent = tuple[str, str, str]
"""The type, the reason and the message of an event about the cron job."""


class Plan(Struct, frozen=True):
    """The schedule of a cron job at one time.

    `due` is the latest run that has not started, `None` for none. `requeue_after` has
    the seconds until the next run, `None` if there is none. Without a usable schedule
    both are `None`, and `events` have the reason.
    """

    due: datetime | None = None
    requeue_after: float | None = None
    events: tuple[CronJobEvent, ...] = ()


def plan_runs(cron_job: CronJob, local: tzinfo, now: datetime) -> Plan:
    """Return the plan of a cron job that is not suspended.

    Of several missed runs only the latest is due. `local` is the zone of a schedule
    that names none.
    """
    events: tuple[CronJobEvent, ...] = ()
    if names_a_zone(cron_job.spec.schedule):
        message = _ZONE_IN_SCHEDULE.format(quoted(cron_job.spec.schedule))
        events = ((WARNING, "UnsupportedSchedule", message),)
    try:
        schedule = _parsed(cron_job, local)
    except ScheduleError as error:
        text = quoted(cron_job.spec.schedule)
        message = f"unparseable schedule: {text} : {error}"
        return Plan(events=(*events, (WARNING, "UnparseableSchedule", message)))
    start = _window_start(cron_job, now)
    if schedule.next_after(start) is None:
        return Plan(events=(*events, _never(cron_job)))
    runs = runs_between(schedule, start, now)
    if runs.are_many:
        events = (*events, _TOO_MANY)
    return Plan(runs.latest, _seconds_until_next(cron_job, schedule, now), events)


def zone_problem(cron_job: CronJob) -> CronJobEvent | None:
    """Return the event about a time zone that does not exist, `None` if it does."""
    zone = cron_job.spec.time_zone
    if zone is None:
        return None
    try:
        load_zone(zone)
    except ZoneError as error:
        message = f"invalid timeZone: {quoted(zone)}: {error}"
        return (WARNING, "UnknownTimeZone", message)
    return None


def seconds_until_next(cron_job: CronJob, local: tzinfo, now: datetime) -> float | None:
    """Return the seconds until the next run; `None` if there is none.

    A time zone that does not exist is left out, as upstream's formatSchedule does: the
    sync records an event about it. Raises ScheduleError if the schedule cannot be
    parsed.
    """
    try:
        schedule = _parsed(cron_job, local)
    except ZoneError:
        schedule = parse_in_zone(cron_job.spec.schedule, None, local)
    return _seconds_until_next(cron_job, schedule, now)


def recent_runs(
    cron_job: CronJob, local: tzinfo, now: datetime
) -> tuple[datetime, ...]:
    """Return the runs for which a former leader may have created unseen jobs."""
    start = max(_last_run(cron_job), now - _LAG)
    return all_runs(_parsed(cron_job, local), start, now)


def _parsed(cron_job: CronJob, local: tzinfo) -> Schedule:
    return parse_in_zone(cron_job.spec.schedule, cron_job.spec.time_zone, local)


def _last_run(cron_job: CronJob) -> datetime:
    """Return the time after which runs count as missed."""
    last = cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp
    return max(parse_time(last), _EARLIEST) if last else _EARLIEST


def _window_start(cron_job: CronJob, now: datetime) -> datetime:
    """Return the time after which a run may still start."""
    start = _last_run(cron_job)
    deadline = cron_job.spec.starting_deadline_seconds
    if deadline is None:
        return start
    try:
        return max(start, now - timedelta(seconds=deadline))
    except OverflowError:
        return start


def _seconds_until_next(
    cron_job: CronJob, schedule: Schedule, now: datetime
) -> float | None:
    following = next_run(schedule, _last_run(cron_job), now)
    if following is None:
        return None
    return max(0.0, (following + _DELTA - now).total_seconds())


def _never(cron_job: CronJob) -> CronJobEvent:
    # The words are upstream's: it computes the time between the next two runs.
    problem = "time difference between two schedules is less than 1 second"
    message = f"invalid schedule: {cron_job.spec.schedule} : {problem}"
    return (WARNING, "InvalidSchedule", message)


_MANY: Final = (
    "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or "
    "check clock skew"
)
_TOO_MANY: Final[CronJobEvent] = (WARNING, "TooManyMissedTimes", _MANY)
