"""Ended pods are mentioned, released and counted, each once."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller_manager.api.batch.v1 import Job, JobStatus
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.batch.job.pods import (
    NO_CHANGE,
    PodPlan,
    Tally,
    plan_pods,
)
from controller_manager.controllers.batch.job.status import (
    FinishedCondition,
    Mentions,
    PodWrites,
    evaluate,
    first_status,
    started,
    will_write,
    with_final_condition,
)
from tests.controllers.batch.job.builders import (
    at,
    job,
    make_tally,
    names,
    pod,
    pods_of,
    running,
    standing,
    text,
)

FAILURE = FinishedCondition("FailureTarget", "Why", "Because")
SUCCESS = FinishedCondition("SuccessCriteriaMet", "Why", "Because")

IGNORED = {
    "rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [9]}}]
}


def status(**fields: Any) -> JobStatus:
    """Return a status as the API server has it; `fields` are in JSON."""
    whole: JSON = {
        "startTime": text(0),
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
        **fields,
    }
    return msgspec.convert(whole, JobStatus)


def tallied(
    subject: Job,
    pods: Sequence[Pod],
    finished: FinishedCondition | None = None,
    **did: Any,
) -> tuple[JobStatus, Mentions]:
    writes = PodWrites(decided=finished is None, **did)
    return first_status(make_tally(subject, pods), writes, finished, at(60))


def mentioned(
    ended: Sequence[str] = (), failed: Sequence[str] = (), **fields: Any
) -> JobStatus:
    """Return a status that mentions pods which are not counted yet."""
    both = {"succeeded": list(ended), "failed": list(failed)}
    named = {phase: names for phase, names in both.items() if names}
    return status(uncountedTerminatedPods=named, **fields)


MENTIONS = {"succeeded": ["s", "gone"], "failed": ["f"]}
LATE: dict[str, Any] = {"podReplacementPolicy": "Failed"}


@pytest.mark.parametrize(
    ("subject", "pods", "expected", "released"),
    [
        (job(), "r0, r1", status(active=2), ""),
        (job(), "r ready", status(active=1, ready=1), ""),
        (job(), "s succeeded, f failed", mentioned("s", "f"), "s f"),
        # A pod without finalizer has been counted.
        (job(), "s succeeded untracked", status(), ""),
        # A mentioned pod is not mentioned again, but released.
        (
            job({"uncountedTerminatedPods": {"succeeded": ["s"]}}),
            "s succeeded",
            mentioned("s"),
            "s",
        ),
        # A mentioned pod without finalizer is counted.
        (
            job({"succeeded": 1, "uncountedTerminatedPods": MENTIONS}),
            "s succeeded untracked, f failed",
            mentioned(failed="f", succeeded=3),
            "f",
        ),
        # A terminating pod counts at once, or when it has ended.
        (job(), "t deleting", mentioned(failed="t", terminating=1), "t"),
        (job(**LATE), "t deleting", status(terminating=1), ""),
        (job(**LATE), "t failed deleting", mentioned(failed="t"), "t"),
        # A failure that the policy ignores is released, but not counted.
        (
            job(podFailurePolicy=IGNORED),
            "i failed code=9, f failed code=8",
            mentioned(failed="f"),
            "i f",
        ),
        # Indexes that succeeded need no uids.
        (
            job(indexes=4),
            "three succeeded index=3, one succeeded index=1",
            status(succeeded=2, completedIndexes="1,3"),
            "one three",
        ),
        (
            job({"completedIndexes": "1", "succeeded": 1}, indexes=4),
            "again succeeded index=1, beyond succeeded index=4",
            status(succeeded=1, completedIndexes="1"),
            "again beyond",
        ),
        (
            job({"completedIndexes": "0-3", "succeeded": 4}, indexes=2),
            "",
            status(succeeded=2, completedIndexes="0,1"),
            "",
        ),
        (
            job(indexes=2),
            "beyond failed index=2, none failed",
            status(completedIndexes=""),
            "none beyond",
        ),
        # The last failed pod of an index waits for its replacement.
        (
            job(indexes=2, backoffLimitPerIndex=2),
            "f failed index=0",
            status(failedIndexes=""),
            "",
        ),
        (
            job(indexes=2, backoffLimitPerIndex=2),
            "f failed index=0, r index=0",
            mentioned(failed="f", active=1, failedIndexes=""),
            "f",
        ),
        (
            job(indexes=2, backoffLimitPerIndex=0),
            "f failed index=0",
            mentioned(failed="f", failedIndexes="0"),
            "f",
        ),
    ],
)
def test_pods_that_have_ended_are_mentioned(
    subject: Job, pods: str, expected: JobStatus, released: str
) -> None:
    found, mentions = tallied(subject, pods_of(pods))
    assert (found, names(mentions.released)) == (expected, released.split())


def target(kind: str) -> JSON:
    """Return a true condition that was set at 60 s."""
    return {
        "type": kind,
        "status": "True",
        "lastProbeTime": text(60),
        "lastTransitionTime": text(60),
        "reason": "Why",
        "message": "Because",
    }


@pytest.mark.parametrize(
    ("finished", "failed"), [(FAILURE, ["f", "r0", "r1"]), (SUCCESS, ["f"])]
)
def test_its_end_releases_pods(finished: FinishedCondition, failed: list[str]) -> None:
    pods = [*running(2), pod("f", "Failed")]
    found, mentions = tallied(job(), pods, finished, deleted=tuple(running(2)))
    assert sorted(names(mentions.released)) == ["f", "r0", "r1"]
    assert found == mentioned(
        failed=[*failed[1:], "f"], terminating=2, conditions=[target(finished.type)]
    )


def test_a_job_that_is_being_deleted_releases_all_pods() -> None:
    subject = job()
    deleting = replace(subject.metadata, deletion_timestamp=text(1))
    found, mentions = tallied(replace(subject, metadata=deleting), running(2))
    assert (names(mentions.released), found) == (["r0", "r1"], status(active=2))


def test_the_numbers_are_those_after_the_writes_of_the_sync() -> None:
    ready = pod("ready", ready=True)
    found, _ = tallied(job(), [ready, pod("r")], created=3, deleted=(ready,))
    assert found == status(active=4, terminating=1)


def test_at_most_500_pods_are_mentioned() -> None:
    pods = [pod(f"s{each}", "Succeeded") for each in range(501)]
    found, mentions = tallied(job(), pods)
    mentioned = found.uncounted_terminated_pods
    assert mentioned is not None
    assert len(mentioned.succeeded or ()) == len(mentions.released) == 500
    assert not mentions.is_whole
    assert tallied(job(), pods[:499])[1].is_whole


def test_the_action_of_the_policy_is_counted_once_for_each_pod() -> None:
    subject = job(
        {"uncountedTerminatedPods": {"failed": ["old"]}}, podFailurePolicy=IGNORED
    )
    pods = [pod("i", "Failed", code=9), pod("old", "Failed", code=9)]
    _, mentions = tallied(subject, pods)
    assert mentions.actions == {"Ignore": 1}


def suspension(state: str, reason: str, message: str) -> JSON:
    told = {"status": state, "reason": reason, "message": message}
    return {**target("Suspended"), **told}


def test_suspending_takes_the_start_time_away() -> None:
    """The deadline does not count while a job is suspended."""
    found, _ = tallied(job(suspend=True), [])
    condition = suspension("True", "JobSuspended", "Job suspended")
    assert found == status(startTime=None, conditions=[condition])
    again = replace(job(suspend=True), status=found)
    assert tallied(again, [])[0] == found


def test_resuming_starts_the_clock_again() -> None:
    found, _ = tallied(job(standing("Suspended")), [])
    condition = suspension("False", "JobResumed", "Job resumed")
    assert found == status(startTime=text(60), conditions=[condition])


def test_a_sync_without_a_decision_does_not_set_the_condition_suspended() -> None:
    """The cache does not show all pods yet."""
    undecided = PodWrites(decided=False)
    found, _ = first_status(make_tally(job(suspend=True), []), undecided, None, at(60))
    assert found == status()


@pytest.mark.parametrize(
    ("before", "finished", "ends"),
    [
        (status(), None, None),
        (status(), FAILURE, "Failed"),
        (status(), SUCCESS, "Complete"),
        (status(terminating=1), FAILURE, None),
        (status(uncountedTerminatedPods={"failed": ["f"]}), FAILURE, None),
        (status(uncountedTerminatedPods={"succeeded": ["s"]}), SUCCESS, None),
        # The API server refuses an end without a start.
        (status(startTime=None), FAILURE, None),
    ],
)
def test_a_job_ends_when_all_its_pods_have_ended_and_are_counted(
    before: JobStatus, finished: FinishedCondition | None, ends: str | None
) -> None:
    """Only a complete job has a completion time."""
    after = with_final_condition(job(), before, finished, at(60))
    if ends is None:
        assert after == before
        return
    completion = text(60) if ends == "Complete" else None
    assert after == status(conditions=[target(ends)], completionTime=completion)


def test_a_suspended_job_without_completions_ends_without_a_start() -> None:
    """The one case that the API server allows."""
    before = status(startTime=None)
    after = with_final_condition(
        job(completions=0, suspend=True), before, SUCCESS, at(60)
    )
    assert after.completion_time == text(60)


def test_a_pod_for_which_the_job_fails_is_kept_until_the_status_says_so() -> None:
    """It is not counted before, because only this pod shows that the job fails."""
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [9]}}]
    subject = job(podFailurePolicy={"rules": rules})
    pods = [pod("f", "Failed", code=9), pod("g", "Failed", code=1)]
    (_, early), (_, late) = tallied(subject, pods), tallied(subject, pods, FAILURE)
    assert (names(early.released), early.actions) == (["g"], {})
    assert (names(late.released), late.actions) == (["f", "g"], {"FailJob": 1})


def test_a_job_is_not_complete_before_its_start() -> None:
    """The clock was put back, or another machine's clock is behind."""
    after = with_final_condition(job(), status(startTime=text(90)), SUCCESS, at(60))
    assert after.completion_time == text(90)


def test_a_job_starts_unless_it_is_suspended() -> None:
    fresh = {"startTime": None}
    assert started(job(fresh), at(60)).status.start_time == text(60)
    assert started(job(fresh, suspend=True), at(60)).status.start_time is None
    assert started(job(), at(60)).status.start_time == text(0)


INDEX_1 = {"rules": [{"succeededIndexes": "1"}]}


def evaluated(
    subject: Job, pods: Sequence[Pod] = (), **more: Any
) -> tuple[Tally, FinishedCondition | None]:
    return evaluate(subject, pods, at(60), **more)


def planned(subject: Job, pods: Sequence[Pod] = ()) -> tuple[PodPlan, bool]:
    """Return the plan for a job that goes on, and whether the sync will write."""
    tally, finished = evaluated(subject, pods)
    assert finished is None
    plan = plan_pods(tally, at(60))
    return plan, will_write(tally, finished, plan)


@pytest.mark.parametrize(
    ("pods", "writes"),
    [
        (running(1), False),
        (pods_of("s succeeded"), True),
        (pods_of("f failed"), True),
        (pods_of("s succeeded untracked"), False),
    ],
)
def test_a_sync_without_a_plan_counts_ends(pods: list[Pod], *, writes: bool) -> None:
    """The cache is stale, or the job is being deleted: then there is no plan."""
    tally, finished = evaluated(job(completions=3), pods)
    assert (finished, will_write(tally, None, None)) == (None, writes)


def test_a_sync_writes_if_the_job_ends() -> None:
    """Its active pods are deleted, and the status gets the condition."""
    subject = job(standing("FailureTarget"), completions=3)
    tally, finished = evaluated(subject, running(1))
    assert finished == FinishedCondition("FailureTarget", "R", "M")
    assert will_write(tally, finished, None)


def test_a_job_that_seems_complete_is_about_to_be_written() -> None:
    """A work queue with a success ends with its last pod, which the cache may lack."""
    queue = job({"succeeded": 1}, completions=None, parallelism=2)
    assert planned(queue) == (NO_CHANGE, True)
    assert planned(queue, running(1)) == (NO_CHANGE, False)


def test_a_surplus_pod_terminates_as_soon_as_it_is_deleted() -> None:
    """Though the cache does not show that yet; it is not counted."""
    subject = job(completions=3, suspend=True, podReplacementPolicy="Failed")
    tally, finished = evaluated(subject, running(2), deleted_surplus={"r0", "r1"})
    status, mentions = first_status(tally, PodWrites(), finished, at(60))
    assert (status.active, status.terminating, mentions.released) == (0, 2, [])


@pytest.mark.parametrize(
    ("pods", "plan"),
    [
        ("", PodPlan(create=2)),
        ("f failed created=56 untracked", PodPlan(wait=6.0)),
        ("f failed created=56", PodPlan(wait=6.0)),
        ("f failed created=50 untracked, g failed created=56", PodPlan(wait=16.0)),
        (
            "f failed created=56 untracked, s succeeded created=58 untracked",
            PodPlan(create=2),
        ),
        ("d failed created=56 untracked deleting", PodPlan(create=2)),
    ],
)
def test_a_new_process_infers_the_backoff_from_pods(pods: str, plan: PodPlan) -> None:
    """Also by those that another process has counted."""
    subject = job(completions=9, podReplacementPolicy="Failed")
    assert planned(subject, pods_of(pods))[0] == plan


DELETED = pods_of("r2 index=2 deleting, r3 index=3 deleting")


@pytest.mark.parametrize(
    ("subject", "ended", "reason", "expected"),
    [
        (
            job(indexes=6, backoffLimitPerIndex=0, maxFailedIndexes=0),
            "f failed index=0",
            "MaxFailedIndexesExceeded",
            ("0", "", ("f", "r2", "r3")),
        ),
        (
            job(indexes=6, backoffLimit=0, successPolicy=INDEX_1),
            "s succeeded index=1",
            "SuccessPolicy",
            (None, "1", None),
        ),
        (
            job(indexes=6, backoffLimit=0, activeDeadlineSeconds=10),
            "",
            "DeadlineExceeded",
            (None, "", ("r2", "r3")),
        ),
    ],
)
def test_pods_that_an_interrupted_sync_deleted_are_no_reason_to_fail(
    subject: Job,
    ended: str,
    reason: str,
    expected: tuple[str | None, str, tuple[str, ...] | None],
) -> None:
    """The job ends, and the sync was interrupted before it wrote the status."""
    tally, finished = evaluated(subject, [*pods_of(ended), *DELETED])
    assert finished is not None
    assert finished.reason == reason
    status, _ = first_status(tally, PodWrites(), finished, at(60))
    uncounted = status.uncounted_terminated_pods
    assert uncounted is not None
    assert (status.failed_indexes, status.completed_indexes, uncounted.failed) == (
        expected
    )


def test_pods_that_a_user_deletes_are_a_reason_to_fail() -> None:
    """They count unless another reason ends the job."""
    _, finished = evaluated(job(indexes=6, backoffLimit=1), DELETED)
    assert finished is not None
    assert finished.reason == "BackoffLimitExceeded"
    tally, finished = evaluated(job(indexes=6, backoffLimitPerIndex=0), DELETED)
    assert finished is None
    assert tally.failed_indexes is not None
    assert tally.failed_indexes.format() == "2,3"


def test_a_pod_that_is_mentioned_as_failed_is_not_a_success_later() -> None:
    """It was being deleted, and then its containers exited with 0.

    Upstream takes it for a success, too, and the job may be complete without one.
    """
    subject = job({"uncountedTerminatedPods": {"failed": ["p"]}}, completions=1)
    found = make_tally(subject, [pod("p", "Succeeded", deleting=True)])
    assert (found.succeeded, found.failed, found.newly_succeeded) == (0, 1, ())


@pytest.mark.parametrize(
    ("status", "completed", "failed"),
    [
        ({"failedIndexes": "1"}, "2", "1"),
        ({"completedIndexes": "1"}, "1,2", ""),
        ({}, "1,2", ""),
    ],
)
def test_an_index_has_one_end(status: JSON, completed: str, failed: str) -> None:
    """The first one is final; of two at a time it is the success.

    Upstream takes both, and the API server refuses each status of the job from then
    on.
    """
    pods = pods_of("s1 succeeded index=1, f1 failed index=1, s2 succeeded index=2")
    found = make_tally(job(status, indexes=4, backoffLimitPerIndex=0), pods)
    assert found.failed_indexes is not None
    ends = (found.completed.format(), found.failed_indexes.format())
    assert ends == (completed, failed)
    assert (found.to_replace, names(found.newly_failed)) == ({}, ["f1"])
