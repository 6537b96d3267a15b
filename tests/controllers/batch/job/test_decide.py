"""The decision of a sync, also of one after another that was interrupted."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from controller_manager.api.batch.v1 import Job
from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.batch.job.actions import Create, Delete, Plan, Wait
from controller_manager.controllers.batch.job.decide import JobDecision, decide
from controller_manager.controllers.batch.job.uncounted_pods import (
    PodWrites,
    first_status,
)
from tests.controllers.batch.job.cases import at, job, pod, running, standing, text

INDEX_1 = {"rules": [{"succeededIndexes": "1"}]}


def decided(subject: Job, pods: Sequence[Pod] = (), **more: Any) -> JobDecision:
    return decide(subject, pods, at(60), **more)


def test_a_job_that_goes_on_gets_the_pods_that_it_needs() -> None:
    """A job that begins has its start time from then on."""
    decision = decided(job({"startTime": None}, completions=3), running(1))
    assert (decision.finished, decision.plan, decision.is_decided, decision.writes) == (
        None,
        Create(1),
        True,
        True,
    )
    assert decision.view.job.status.start_time == text(60)


@pytest.mark.parametrize("reason", ["the cache is stale", "the job is deleted"])
def test_no_pods_are_created_or_deleted(reason: str) -> None:
    """While the cache lacks writes, or when the job is being deleted."""
    subject = job(completions=3)
    if reason == "the job is deleted":
        metadata = replace(subject.metadata, deletion_timestamp=text(1))
        subject = replace(subject, metadata=metadata)
    stale = reason == "the cache is stale"
    decision = decided(subject, running(1), may_change=not stale)
    assert (decision.plan, decision.is_decided, decision.writes) == (None, False, False)
    ended = [pod("s", "Succeeded")]
    assert decided(subject, ended, may_change=not stale).writes


def test_a_job_that_ends_gets_no_pods() -> None:
    """Its active pods are deleted instead."""
    decision = decided(job(standing("FailureTarget"), completions=3), running(1))
    assert (decision.plan, decision.is_decided, decision.writes) == (None, False, True)


def test_a_job_that_seems_complete_is_about_to_be_written() -> None:
    """A work queue with a success ends with its last pod, which the cache may lack."""
    queue = job({"succeeded": 1}, completions=None, parallelism=2)
    assert (decided(queue).plan, decided(queue).writes) == (None, True)
    assert not decided(queue, running(1)).writes


def test_surplus_pods_are_deleted() -> None:
    """The plan names these pods."""
    decision = decided(job(completions=3, parallelism=1), running(2))
    assert decision.plan == Delete((running(2)[0],))


def test_a_surplus_pod_terminates_as_soon_as_it_is_deleted() -> None:
    """Though the cache does not show that yet; it is not counted."""
    subject = job(completions=3, suspend=True, podReplacementPolicy="Failed")
    decision = decided(
        subject, running(2), deleted_surplus={"r0", "r1"}, may_change=False
    )
    found = first_status(decision.view, PodWrites(), decision.finished, at(60))
    status = found.status
    assert (status.active, status.terminating, found.released) == (0, 2, ())


@pytest.mark.parametrize(
    ("pods", "plan"),
    [
        ([], Create(2)),
        ([pod("f", "Failed", created=56, tracked=False)], Wait(6.0)),
        ([pod("f", "Failed", created=56)], Wait(6.0)),
        (
            [
                pod("f", "Failed", created=50, tracked=False),
                pod("g", "Failed", created=56),
            ],
            Wait(16.0),
        ),
        (
            [
                pod("f", "Failed", created=56, tracked=False),
                pod("s", "Succeeded", created=58, tracked=False),
            ],
            Create(2),
        ),
        ([pod("d", "Failed", created=56, tracked=False, deleting=True)], Create(2)),
    ],
)
def test_a_new_process_knows_the_backoff_by_the_pods_that_are_left(
    pods: list[Pod], plan: Plan
) -> None:
    """Also by those that another process has counted."""
    assert decided(job(completions=9, podReplacementPolicy="Failed"), pods).plan == plan


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
    decision = decided(subject, [*ended, *DELETED])
    assert decision.finished is not None
    assert decision.finished.reason == reason
    status = first_status(decision.view, PodWrites(), decision.finished, at(60)).status
    uncounted = status.uncounted_terminated_pods
    assert uncounted is not None
    assert (status.failed_indexes, status.completed_indexes, uncounted.failed) == (
        expected
    )


def test_pods_that_a_user_deletes_are_a_reason_to_fail() -> None:
    """They count unless another reason ends the job."""
    decision = decided(job(indexes=6, backoffLimit=1), DELETED)
    assert decision.finished is not None
    assert decision.finished.reason == "BackoffLimitExceeded"
    decision = decided(job(indexes=6, backoffLimitPerIndex=0), DELETED)
    assert decision.finished is None
    assert decision.view.failed_indexes is not None
    assert decision.view.failed_indexes.format() == "2,3"
