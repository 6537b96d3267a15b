"""What a sync does about a job and its pods, also after one that was interrupted."""

from collections.abc import Sequence
from typing import Any

import pytest

from controller_manager.api.batch.v1 import Job
from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.batch.job.pods import (
    NO_CHANGE,
    PodPlan,
    Tally,
    plan_pods,
)
from controller_manager.controllers.batch.job.status import (
    FinishedCondition,
    PodWrites,
    evaluate,
    first_status,
    will_write,
)
from tests.controllers.batch.job.cases import at, job, pod, running, standing, text

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


def test_a_job_that_goes_on_gets_the_pods_that_it_needs() -> None:
    """A job that begins has its start time from then on."""
    subject = job({"startTime": None}, completions=3)
    assert planned(subject, running(1)) == (PodPlan(create=1), True)
    tally, _ = evaluated(subject, running(1))
    assert tally.job.status.start_time == text(60)


@pytest.mark.parametrize(
    ("pods", "writes"),
    [
        (running(1), False),
        ([pod("s", "Succeeded")], True),
        ([pod("f", "Failed")], True),
        ([pod("s", "Succeeded", tracked=False)], False),
    ],
)
def test_a_sync_without_a_plan_counts_pods_that_have_ended(
    pods: list[Pod], *, writes: bool
) -> None:
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


def test_surplus_pods_are_deleted() -> None:
    """The plan names these pods."""
    plan, writes = planned(job(completions=3, parallelism=1), running(2))
    assert (plan, writes) == (PodPlan(delete=(running(2)[0],)), True)


def test_a_surplus_pod_terminates_as_soon_as_it_is_deleted() -> None:
    """Though the cache does not show that yet; it is not counted."""
    subject = job(completions=3, suspend=True, podReplacementPolicy="Failed")
    tally, finished = evaluated(subject, running(2), deleted_surplus={"r0", "r1"})
    status, mentions = first_status(tally, PodWrites(), finished, at(60))
    assert (status.active, status.terminating, mentions.released) == (0, 2, [])


@pytest.mark.parametrize(
    ("pods", "plan"),
    [
        ([], PodPlan(create=2)),
        ([pod("f", "Failed", created=56, tracked=False)], PodPlan(wait=6.0)),
        ([pod("f", "Failed", created=56)], PodPlan(wait=6.0)),
        (
            [
                pod("f", "Failed", created=50, tracked=False),
                pod("g", "Failed", created=56),
            ],
            PodPlan(wait=16.0),
        ),
        (
            [
                pod("f", "Failed", created=56, tracked=False),
                pod("s", "Succeeded", created=58, tracked=False),
            ],
            PodPlan(create=2),
        ),
        (
            [pod("d", "Failed", created=56, tracked=False, deleting=True)],
            PodPlan(create=2),
        ),
    ],
)
def test_a_new_process_knows_the_backoff_by_the_pods_that_are_left(
    pods: list[Pod], plan: PodPlan
) -> None:
    """Also by those that another process has counted."""
    subject = job(completions=9, podReplacementPolicy="Failed")
    assert planned(subject, pods)[0] == plan


DELETED = [pod("r2", index=2, deleting=True), pod("r3", index=3, deleting=True)]


@pytest.mark.parametrize(
    ("subject", "ended", "reason", "expected"),
    [
        (
            job(indexes=6, backoffLimitPerIndex=0, maxFailedIndexes=0),
            [pod("f", "Failed", index=0)],
            "MaxFailedIndexesExceeded",
            ("0", "", ("f", "r2", "r3")),
        ),
        (
            job(indexes=6, backoffLimit=0, successPolicy=INDEX_1),
            [pod("s", "Succeeded", index=1)],
            "SuccessPolicy",
            (None, "1", None),
        ),
        (
            job(indexes=6, backoffLimit=0, activeDeadlineSeconds=10),
            [],
            "DeadlineExceeded",
            (None, "", ("r2", "r3")),
        ),
    ],
)
def test_pods_that_an_interrupted_sync_deleted_are_no_reason_to_fail(
    subject: Job,
    ended: list[Pod],
    reason: str,
    expected: tuple[str | None, str, tuple[str, ...] | None],
) -> None:
    """The job ends, and the sync was interrupted before it wrote the status."""
    tally, finished = evaluated(subject, [*ended, *DELETED])
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
