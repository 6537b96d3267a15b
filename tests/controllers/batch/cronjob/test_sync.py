"""Whole syncs of a cron job: what each reads and writes, and the time of the next."""

import pytest

from controller_manager.api.batch.v1 import CronJobStatus
from controller_manager.api.json_objects import JSON
from controller_manager.runtime.outcome import DONE, Done, Failed, SyncError
from tests.controllers.batch.cronjob.builders import (
    ERROR,
    TERMINATING,
    CronJobEvent,
    Situation,
    Synced,
    cron_job,
    job,
    listed,
    name_of_run,
    normal,
    seen,
    status,
    warning,
)

TO_NEXT = Done(300.1)
RUN = name_of_run(0)

ALREADY_ACTIVE = normal(
    "JobAlreadyActive",
    "Not starting job because prior execution is running and concurrency policy is "
    "Forbid",
)
TOO_MANY = warning(
    "TooManyMissedTimes",
    "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or "
    "check clock skew",
)
NOT_DELETED = warning("FailedDelete", "Deleted job: no")


def saw(name: str, end: str) -> CronJobEvent:
    return normal("SawCompletedJob", f"Saw completed job: {name}, condition: {end}")


def unexpected(name: str) -> CronJobEvent:
    return warning(
        "UnexpectedJob",
        f"Saw a job that the controller did not create or forgot: {name}",
    )


def missing(name: str) -> CronJobEvent:
    return normal("MissingJob", f"Active job went missing: {name}")


def unsupported(schedule: str) -> CronJobEvent:
    return warning(
        "UnsupportedSchedule",
        f'CRON_TZ or TZ used in schedule "{schedule}" is not officially supported, see '
        "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more "
        "details",
    )


def started(
    *before: CronJobEvent,
    name: str = RUN,
    active: tuple[str, ...] = (),
    last: float = 0,
    seconds: float = 300.1,
    **more: tuple[str, ...],
) -> Synced:
    """Return a sync that starts a run, after events, beside `active` jobs."""
    return Synced(
        created=(name,),
        events=(*before, normal("SuccessfulCreate", f"Created job {name}")),
        status=status(*active, name, last=last),
        outcome=Done(seconds),
        **more,
    )


def waits(
    after: CronJobStatus, *events: CronJobEvent, **more: tuple[str, ...]
) -> Synced:
    """Return a sync with this status that starts no run."""
    return Synced(status=after, events=events, outcome=TO_NEXT, **more)


def reports(reason: str, message: str) -> Synced:
    """Return a sync that only gives a warning."""
    return Synced(events=(warning(reason, message),))


def gone(*names: str) -> tuple[CronJobEvent, ...]:
    return tuple(normal("SuccessfulDelete", f"Deleted job {name}") for name in names)


UNTIL_TOMORROW: JSON = {"seconds": 86100.1}

CASES: dict[str, tuple[Situation, Synced]] = {
    # The run that is due.
    "the latest missed run is started": (seen(), started()),
    "nothing is due right after a run": (
        seen(cron_job(active=(listed(RUN),), last=0), job(RUN)),
        waits(status(RUN, last=0)),
    ),
    "more than a hundred missed runs are worth a warning": (
        seen(cron_job(last=-1010)),
        started(TOO_MANY),
    ),
    "a hundred are not": (seen(cron_job(last=-1000)), started()),
    "few of them within the deadline are not": (
        seen(cron_job(last=-2000, starting_deadline_seconds=3600)),
        started(),
    ),
    "a run before the deadline is not due": (
        seen(cron_job(starting_deadline_seconds=299)),
        waits(status()),
    ),
    "a time zone shifts the runs": (
        seen(cron_job(schedule="30 17 * * *", time_zone="Asia/Kolkata")),
        started(**UNTIL_TOMORROW),
    ),
    "a zone in the schedule has precedence, with a warning": (
        seen(cron_job(schedule="TZ=Asia/Kolkata 30 17 * * *", time_zone="Etc/UTC")),
        started(unsupported("TZ=Asia/Kolkata 30 17 * * *"), **UNTIL_TOMORROW),
    ),
    "every counts from the last run": (
        seen(cron_job(schedule="@every 7m", last=-7)),
        started(seconds=120.1),
    ),
    "a suspended cron job is not looked at again": (
        seen(cron_job(suspend=True)),
        Synced(),
    ),
    "a cron job that is being deleted only gets a status": (
        seen(cron_job(deleting=True, active=(listed("a"),)), job("a", "Failed")),
        Synced(events=(saw("a", "Failed"),)),
    ),
    "a schedule without any run is reported": (
        seen(cron_job(schedule="0 0 31 2 *")),
        reports(
            "InvalidSchedule",
            "invalid schedule: 0 0 31 2 * : time difference between two schedules is "
            "less than 1 second",
        ),
    ),
    "a schedule that cannot be parsed is reported": (
        seen(cron_job(schedule="* * * * 7")),
        reports(
            "UnparseableSchedule",
            'unparseable schedule: "* * * * 7" : end of range (7) above maximum (6): 7',
        ),
    ),
    "a time zone that does not exist is reported, also if it is suspended": (
        seen(cron_job(time_zone="Mars/Phobos", suspend=True)),
        reports(
            "UnknownTimeZone",
            'invalid timeZone: "Mars/Phobos": unknown time zone Mars/Phobos',
        ),
    ),
    # Active jobs.
    "ended jobs leave the list, and the last success is known": (
        seen(
            cron_job(
                active=(listed("a"), listed("b"), listed("c")), last=0, succeeded=-40
            ),
            job("a", "Complete", started=-20),
            job("b", "Failed", started=-10),
            job("c"),
        ),
        waits(
            status("c", last=0, succeeded=-15), saw("a", "Complete"), saw("b", "Failed")
        ),
    ),
    "an earlier success than the last changes nothing": (
        seen(cron_job(last=0, succeeded=-1), job("a", "Complete", started=-20)),
        waits(status(last=0, succeeded=-1)),
    ),
    "a running job that is not listed makes the cron job be read": (
        seen(cron_job(last=0), job("a", by_hand=True)),
        waits(status(last=0), unexpected("a"), reads=("tick",)),
    ),
    "one of a run is looked up and listed": (
        seen(cron_job(last=0), job("a")),
        waits(status("a", last=0), unexpected("a"), reads=("tick", "a")),
    ),
    "or not, if it is gone": (
        seen(cron_job(last=0), job("a"), lost=("a",)),
        waits(status(last=0), reads=("tick", "a")),
    ),
    "one that is being deleted is not listed": (
        seen(cron_job(last=0), job("a", deleting=True)),
        waits(status(last=0)),
    ),
    "an active job that the cache lacks is looked up, and stays while it exists": (
        seen(cron_job(active=(listed("a"),), last=0), more=(job("a"),)),
        waits(status("a", last=0), reads=("a",)),
    ),
    "or leaves the list": (
        seen(cron_job(active=(listed("a"),), last=0)),
        waits(status(last=0), missing("a"), reads=("a",)),
    ),
    "a cron job that is gone needs nothing": (
        seen(cron_job(), job("a"), is_gone=True),
        Synced(reads=("tick",), outcome=DONE),
    ),
    # Concurrency.
    "Allow starts beside active jobs": (
        seen(cron_job(active=(listed("a"),)), job("a")),
        started(active=("a",)),
    ),
    "Forbid waits for active jobs": (
        seen(cron_job(active=(listed("a"),), concurrency_policy="Forbid"), job("a")),
        waits(status("a"), ALREADY_ACTIVE),
    ),
    "Forbid waits for a job that was forgotten": (
        seen(cron_job(concurrency_policy="Forbid"), job("a")),
        waits(status("a"), unexpected("a"), ALREADY_ACTIVE, reads=("tick", "a")),
    ),
    "Forbid starts in the sync that sees the active job's end": (
        seen(
            cron_job(active=(listed("a"),), concurrency_policy="Forbid"),
            job("a", "Failed"),
        ),
        started(saw("a", "Failed")),
    ),
    "Replace deletes active jobs first": (
        seen(
            cron_job(active=(listed("a"), listed("b")), concurrency_policy="Replace"),
            job("a"),
            job("b"),
        ),
        started(*gone("a", "b"), deleted=("a", "b")),
    ),
    "Replace does not start if one could not be deleted": (
        seen(
            cron_job(active=(listed("a"), listed("b")), concurrency_policy="Replace"),
            job("a"),
            job("b"),
            errors={"b": ERROR},
        ),
        Synced(
            deleted=("a",),
            events=(*gone("a"), NOT_DELETED),
            status=status("b"),
            outcome=Failed(SyncError("could not replace job default/b"), 300.1),
        ),
    ),
    # Jobs that exist already.
    "the listed job of the due run is that run": (
        seen(cron_job(active=(listed(RUN),), last=-10), job(RUN)),
        waits(status(RUN, last=-10)),
    ),
    "the forgotten job of the due run is that run": (
        seen(cron_job(last=-10), job(RUN)),
        waits(status(RUN, last=0), unexpected(RUN), reads=("tick", RUN)),
    ),
    "so is one that has ended": (
        seen(cron_job(last=-10), job(RUN, "Failed")),
        waits(status(last=0)),
    ),
    # History.
    "surplus finished jobs are deleted, the oldest first": (
        seen(
            cron_job(last=0, suspend=True, successful_jobs_history_limit=1),
            job("a", "Complete", started=-10),
            job("b", "Complete", started=-30),
            job("c", "Complete", started=-20),
            job("d", "Failed", started=-30),
            job("e", "Failed", started=-40),
        ),
        Synced(
            deleted=("b", "c", "e"),
            events=gone("b", "c", "e"),
            status=status(last=0, succeeded=-5),
        ),
    ),
    "also those of a limit of nothing": (
        seen(
            cron_job(last=0, successful_jobs_history_limit=0),
            job("a", "Complete", started=-10),
            job("b", "Complete", started=-30),
            job("c", "Complete", started=-20, deleting=True),
            job("d", "Failed", started=-30),
            job("e", "Failed", started=-40),
        ),
        waits(
            status(last=0, succeeded=-5), *gone("b", "a", "e"), deleted=("b", "a", "e")
        ),
    ),
    "a cron job without limits keeps all": (
        seen(
            cron_job(
                last=0,
                successful_jobs_history_limit=None,
                failed_jobs_history_limit=None,
            ),
            *(job(f"j{number}", "Failed") for number in range(5)),
        ),
        waits(status(last=0)),
    ),
    "a deleted job was no completed one, but its success counts": (
        seen(
            cron_job(active=(listed("a"),), last=0, successful_jobs_history_limit=0),
            job("a", "Complete", started=-10),
        ),
        waits(status(last=0, succeeded=-5), *gone("a"), deleted=("a",)),
    ),
    "a deletion that failed is tried again": (
        seen(
            cron_job(last=0, failed_jobs_history_limit=0),
            job("a", "Failed"),
            errors={"a": ERROR},
        ),
        Synced(
            events=(NOT_DELETED,), status=status(last=0), outcome=Failed(ERROR, 300.1)
        ),
    ),
    # A new leader.
    "a new leader reads the cron job before a run, and with Allow no jobs": (
        seen(is_new_leader=True),
        started(reads=("tick",)),
    ),
    "a new leader does nothing for a cron job that is gone": (
        seen(is_new_leader=True, is_gone=True),
        Synced(reads=("tick",)),
    ),
    "with Forbid it looks for the jobs of late runs": (
        seen(
            cron_job(schedule="*/4 * * * *", concurrency_policy="Forbid"),
            job(name_of_run(-4), "Failed"),
            is_new_leader=True,
        ),
        started(
            name=name_of_run(4),
            last=4,
            seconds=180.1,
            reads=("tick", name_of_run(-8), name_of_run(0), name_of_run(4)),
        ),
    ),
    "a job that it finds is looked up, listed, and forbids the run": (
        seen(
            cron_job(schedule="*/4 * * * *", concurrency_policy="Forbid"),
            more=(job(name_of_run(0)),),
            is_new_leader=True,
        ),
        Synced(
            reads=("tick", *map(name_of_run, (-8, -4, 0, 4)), name_of_run(0)),
            events=(unexpected(name_of_run(0)), ALREADY_ACTIVE),
            status=status(name_of_run(0)),
            outcome=Done(180.1),
        ),
    ),
    "if nothing is due it reads nothing": (
        seen(cron_job(last=0), is_new_leader=True),
        waits(status(last=0)),
    ),
    # The creation.
    "a created job is listed": (
        seen(cron_job(active=(listed("a"),), last=-10), job("a")),
        started(active=("a",)),
    ),
    "one of the cron job's with that name is taken": (
        seen(cron_job(last=-10), more=(job(RUN),)),
        waits(status(RUN, last=0), reads=(RUN,)),
    ),
    "if it has ended, only the run's time is written": (
        seen(cron_job(last=-10), more=(job(RUN, "Failed"),)),
        waits(status(last=0), reads=(RUN,)),
    ),
    "a failed creation is reported and tried again": (
        seen(cron_job(last=-10), errors={RUN: ERROR}),
        Synced(
            events=(warning("FailedCreate", "Error creating job: no"),),
            status=status(last=-10),
            outcome=Failed(ERROR, 300.1),
        ),
    ),
    "in a terminating namespace there is nothing to report": (
        seen(cron_job(last=-10), errors={RUN: TERMINATING}),
        waits(status(last=-10)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_sync_reads_and_writes_what_it_must(case: str) -> None:
    situation, expected = CASES[case]
    assert situation.sync().comparable == expected.comparable
