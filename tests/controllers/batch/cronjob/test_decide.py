"""The decisions about a cron job, as a table of views and decisions."""

from datetime import timedelta

import pytest

from controller_manager.api.meta import Status
from controller_manager.client.errors import APIError
from controller_manager.control.decision import Decision, Step
from controller_manager.controllers.batch.cronjob.actions import (
    CreateJob,
    CronJobDecision,
    CronJobStep,
    DeleteJob,
    LookForActive,
    ReadCronJob,
    RecordEvent,
    SearchRuns,
)
from controller_manager.controllers.batch.cronjob.decide import decide
from controller_manager.controllers.batch.cronjob.view import (
    Created,
    CreationFailed,
    NamespaceTerminating,
    NameTaken,
    View,
)
from controller_manager.runtime.outcome import SyncError
from tests.controllers.batch.cronjob.cases import (
    NOON,
    cron_job,
    job,
    listed,
    name_of_run,
    normal,
    status,
    view,
    warning,
)

NOW = NOON + timedelta(minutes=5)
TO_NEXT = 300.1
DUE = NOON
RUN = name_of_run(0)
EARLIER_RUN = name_of_run(-10)
ERROR = APIError(Status(message="no"))

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


def saw(name: str, end: str) -> RecordEvent:
    return normal("SawCompletedJob", f"Saw completed job: {name}, condition: {end}")


def unexpected(name: str) -> RecordEvent:
    return warning(
        "UnexpectedJob",
        f"Saw a job that the controller did not create or forgot: {name}",
    )


def missing(name: str) -> RecordEvent:
    return normal("MissingJob", f"Active job went missing: {name}")


def unsupported(schedule: str) -> RecordEvent:
    return warning(
        "UnsupportedSchedule",
        f'CRON_TZ or TZ used in schedule "{schedule}" is not officially supported, see '
        "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more "
        "details",
    )


CASES: dict[str, tuple[View, CronJobStep | CronJobDecision]] = {
    # The run that is due.
    "the latest missed run is started": (
        view(cron_job()),
        Step((CreateJob(DUE),)),
    ),
    "nothing is due right after a run": (
        view(cron_job(active=(listed(RUN),), last=0), job(RUN)),
        Decision((), status(RUN, last=0), requeue_after=TO_NEXT),
    ),
    "more than a hundred missed runs are worth a warning": (
        view(cron_job(last=-1010)),
        Step((TOO_MANY, CreateJob(DUE))),
    ),
    "a hundred are not": (
        view(cron_job(last=-1000)),
        Step((CreateJob(DUE),)),
    ),
    "few of them within the deadline are not": (
        view(cron_job(last=-2000, starting_deadline_seconds=3600)),
        Step((CreateJob(DUE),)),
    ),
    "a run before the deadline is not due": (
        view(cron_job(starting_deadline_seconds=299)),
        Decision((), status(), requeue_after=TO_NEXT),
    ),
    "a time zone shifts the runs": (
        view(cron_job(schedule="30 17 * * *", time_zone="Asia/Kolkata")),
        Step((CreateJob(DUE),)),
    ),
    "a zone in the schedule has precedence, with a warning": (
        view(cron_job(schedule="TZ=Asia/Kolkata 30 17 * * *", time_zone="Etc/UTC")),
        Step((unsupported("TZ=Asia/Kolkata 30 17 * * *"), CreateJob(DUE))),
    ),
    "every counts from the last run": (
        view(cron_job(schedule="@every 7m", last=-7)),
        Step((CreateJob(DUE),)),
    ),
    "a suspended cron job is not looked at again": (
        view(cron_job(suspend=True)),
        Decision((), status()),
    ),
    "a cron job that is being deleted only gets a status": (
        view(cron_job(deleting=True, active=(listed("a"),)), job("a", "Failed")),
        Decision((saw("a", "Failed"),), status()),
    ),
    "a schedule without any run is reported": (
        view(cron_job(schedule="0 0 31 2 *")),
        Decision(
            (
                warning(
                    "InvalidSchedule",
                    "invalid schedule: 0 0 31 2 * : time difference between two "
                    "schedules is less than 1 second",
                ),
            ),
            status(),
        ),
    ),
    "a schedule that cannot be parsed is reported": (
        view(cron_job(schedule="* * * * 7")),
        Decision(
            (
                warning(
                    "UnparseableSchedule",
                    'unparseable schedule: "* * * * 7" : end of range (7) above '
                    "maximum (6): 7",
                ),
            ),
            status(),
        ),
    ),
    "a time zone that does not exist is reported, also if it is suspended": (
        view(cron_job(time_zone="Mars/Phobos", suspend=True)),
        Decision(
            (
                warning(
                    "UnknownTimeZone",
                    'invalid timeZone: "Mars/Phobos": unknown time zone Mars/Phobos',
                ),
            ),
            status(),
        ),
    ),
    # Active jobs.
    "ended jobs leave the list, and the last success is known": (
        view(
            cron_job(
                active=(listed("a"), listed("b"), listed("c")), last=0, succeeded=-40
            ),
            job("a", "Complete", started=-20),
            job("b", "Failed", started=-10),
            job("c"),
        ),
        Decision(
            (saw("a", "Complete"), saw("b", "Failed")),
            status("c", last=0, succeeded=-15),
            requeue_after=TO_NEXT,
        ),
    ),
    "an earlier success than the last changes nothing": (
        view(cron_job(last=0, succeeded=-1), job("a", "Complete", started=-20)),
        Decision((), status(last=0, succeeded=-1), requeue_after=TO_NEXT),
    ),
    "a running job that is not listed makes the cron job be read": (
        view(cron_job(last=0), job("a", by_hand=True)),
        Step((ReadCronJob(),)),
    ),
    "one made by hand is reported": (
        view(cron_job(last=0), job("a", by_hand=True), is_fresh=True),
        Decision((unexpected("a"),), status(last=0), requeue_after=TO_NEXT),
    ),
    "one of a run is looked up first": (
        view(cron_job(last=0), job("a"), is_fresh=True),
        Step((LookForActive(listed("a")),)),
    ),
    "and then listed": (
        view(cron_job(last=0), job("a"), is_fresh=True, still_there={"a": True}),
        Decision((unexpected("a"),), status("a", last=0), requeue_after=TO_NEXT),
    ),
    "or not, if it is gone": (
        view(cron_job(last=0), job("a"), is_fresh=True, still_there={"a": False}),
        Decision((), status(last=0), requeue_after=TO_NEXT),
    ),
    "one that is being deleted is not listed": (
        view(cron_job(last=0), job("a", deleting=True)),
        Decision((), status(last=0), requeue_after=TO_NEXT),
    ),
    "an active job that the cache lacks is looked up": (
        view(cron_job(active=(listed("a"),), last=0)),
        Step((LookForActive(listed("a")),)),
    ),
    "and stays while it exists": (
        view(cron_job(active=(listed("a"),), last=0), still_there={"a": True}),
        Decision((), status("a", last=0), requeue_after=TO_NEXT),
    ),
    "or leaves the list": (
        view(cron_job(active=(listed("a"),), last=0), still_there={"a": False}),
        Decision((missing("a"),), status(last=0), requeue_after=TO_NEXT),
    ),
    "a cron job that is gone needs nothing": (
        view(cron_job(), is_gone=True),
        Decision(),
    ),
    # Concurrency.
    "Allow starts beside active jobs": (
        view(cron_job(active=(listed("a"),)), job("a")),
        Step((CreateJob(DUE),)),
    ),
    "Forbid waits for active jobs": (
        view(cron_job(active=(listed("a"),), concurrency_policy="Forbid"), job("a")),
        Decision((ALREADY_ACTIVE,), status("a"), requeue_after=TO_NEXT),
    ),
    "Forbid waits for a job that was forgotten": (
        view(
            cron_job(concurrency_policy="Forbid"),
            job("a"),
            is_fresh=True,
            still_there={"a": True},
        ),
        Decision((unexpected("a"), ALREADY_ACTIVE), status("a"), requeue_after=TO_NEXT),
    ),
    "Forbid starts in the sync that sees the active job's end": (
        view(
            cron_job(active=(listed("a"),), concurrency_policy="Forbid"),
            job("a", "Failed"),
        ),
        Step((saw("a", "Failed"), CreateJob(DUE))),
    ),
    "Replace deletes active jobs first": (
        view(
            cron_job(active=(listed("a"), listed("b")), concurrency_policy="Replace"),
            job("a"),
            job("b"),
        ),
        Step((DeleteJob("a", "a"), DeleteJob("b", "b"))),
    ),
    "Replace starts once they are deleted": (
        view(
            cron_job(active=(listed("a"),), concurrency_policy="Replace"),
            job("a"),
            deletions={"a": None},
        ),
        Step((CreateJob(DUE),)),
    ),
    "Replace does not start if one could not be deleted": (
        view(
            cron_job(active=(listed("a"), listed("b")), concurrency_policy="Replace"),
            job("a"),
            job("b"),
            deletions={"a": None, "b": ERROR},
        ),
        Decision(
            (),
            status("b"),
            requeue_after=TO_NEXT,
            retry=SyncError("could not replace job default/b"),
        ),
    ),
    # Jobs that exist already.
    "the listed job of the due run is that run": (
        view(cron_job(active=(listed(RUN),), last=-10), job(RUN)),
        Decision((), status(RUN, last=-10), requeue_after=TO_NEXT),
    ),
    "the forgotten job of the due run is that run": (
        view(cron_job(last=-10), job(RUN), is_fresh=True, still_there={RUN: True}),
        Decision((unexpected(RUN),), status(RUN, last=0), requeue_after=TO_NEXT),
    ),
    "so is one that has ended": (
        view(cron_job(last=-10), job(RUN, "Failed")),
        Decision((), status(last=0), requeue_after=TO_NEXT),
    ),
    # History.
    "surplus finished jobs are deleted, the oldest first": (
        view(
            cron_job(last=0, suspend=True, successful_jobs_history_limit=1),
            job("a", "Complete", started=-10),
            job("b", "Complete", started=-30),
            job("c", "Complete", started=-20),
            job("d", "Failed", started=-30),
            job("e", "Failed", started=-40),
        ),
        Step((DeleteJob("b", "b"), DeleteJob("c", "c"), DeleteJob("e", "e"))),
    ),
    "also those of a limit of nothing": (
        view(
            cron_job(last=0, successful_jobs_history_limit=0),
            job("a", "Complete", started=-10),
            job("b", "Complete", started=-30),
            job("c", "Complete", started=-20, deleting=True),
            job("d", "Failed", started=-30),
            job("e", "Failed", started=-40),
        ),
        Step((DeleteJob("b", "b"), DeleteJob("a", "a"), DeleteJob("e", "e"))),
    ),
    "a cron job without limits keeps all": (
        view(
            cron_job(
                last=0,
                successful_jobs_history_limit=None,
                failed_jobs_history_limit=None,
            ),
            *(job(f"j{number}", "Failed") for number in range(5)),
        ),
        Decision((), status(last=0), requeue_after=TO_NEXT),
    ),
    "a deleted job was no completed one, but its success counts": (
        view(
            cron_job(active=(listed("a"),), last=0, successful_jobs_history_limit=0),
            job("a", "Complete", started=-10),
            deletions={"a": None},
        ),
        Decision((), status(last=0, succeeded=-5), requeue_after=TO_NEXT),
    ),
    "a deletion that failed is tried again": (
        view(
            cron_job(last=0, failed_jobs_history_limit=0),
            job("a", "Failed"),
            deletions={"a": ERROR},
        ),
        Decision((), status(last=0), requeue_after=TO_NEXT, retry=ERROR),
    ),
    # A new leader.
    "a new leader reads the cron job before a run": (
        view(cron_job(), may_be_behind=True),
        Step((ReadCronJob(),)),
    ),
    "with Allow it looks for no jobs": (
        view(cron_job(), may_be_behind=True, is_fresh=True),
        Step((SearchRuns(()),)),
    ),
    "with Forbid it looks for the jobs of late runs": (
        view(
            cron_job(schedule="*/4 * * * *", concurrency_policy="Forbid"),
            job(name_of_run(-4), "Failed"),
            may_be_behind=True,
            is_fresh=True,
        ),
        Step((SearchRuns((name_of_run(-8), name_of_run(0), name_of_run(4))),)),
    ),
    "then it starts the run": (
        view(cron_job(), may_be_behind=True, is_fresh=True, searched=True),
        Step((CreateJob(DUE),)),
    ),
    "if nothing is due it reads nothing": (
        view(cron_job(last=0), may_be_behind=True),
        Decision((), status(last=0), requeue_after=TO_NEXT),
    ),
    # After a creation.
    "a created job is listed": (
        view(
            cron_job(active=(listed("a"),), last=-10),
            job("a"),
            creation=Created(job(RUN), DUE),
        ),
        Decision((), status("a", RUN, last=0), requeue_after=TO_NEXT),
    ),
    "one of the cron job's with that name is taken": (
        view(cron_job(last=-10), creation=NameTaken(job(RUN), DUE)),
        Decision((), status(RUN, last=0), requeue_after=TO_NEXT),
    ),
    "if it has ended, only the run's time is written": (
        view(cron_job(last=-10), creation=NameTaken(job(RUN, "Failed"), DUE)),
        Decision((), status(last=0), requeue_after=TO_NEXT),
    ),
    "a failed creation is reported and tried again": (
        view(cron_job(last=-10), creation=CreationFailed(ERROR)),
        Decision(
            (warning("FailedCreate", "Error creating job: no"),),
            status(last=-10),
            requeue_after=TO_NEXT,
            retry=ERROR,
        ),
    ),
    "in a terminating namespace there is nothing to report": (
        view(cron_job(last=-10), creation=NamespaceTerminating()),
        Decision((), status(last=-10), requeue_after=TO_NEXT),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_view_leads_to_a_decision(case: str) -> None:
    """The whole decision: actions with their events, status, and the requeue time."""
    seen, expected = CASES[case]
    decided = decide(seen, NOW)
    if isinstance(decided, Decision) and isinstance(decided.retry, SyncError):
        assert isinstance(expected, Decision)
        assert str(decided.retry) == str(expected.retry)
        decided, expected = without_retry(decided), without_retry(expected)
    assert decided == expected


def without_retry(decision: CronJobDecision) -> CronJobDecision:
    return Decision(decision.actions, decision.status, decision.reasons)
