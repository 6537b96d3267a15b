"""A job ends for one reason."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from controller_manager.api.batch.v1 import Job
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.batch.job.status import (
    FinishedCondition,
    completed,
    find_finished_condition,
    seconds_to_deadline,
)
from tests.controllers.batch.job.cases import (
    at,
    job,
    make_tally,
    pod,
    running,
    standing,
)

LIMIT = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = ("DeadlineExceeded", "Job was active longer than specified deadline")
INDEXES = ("FailedIndexes", "Job has failed indexes")
TOO_MANY_INDEXES = (
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)
_FOUND = "Container c for pod default/p failed with exit code 9"
POLICY = ("PodFailurePolicy", f"{_FOUND} matching FailJob rule at index 0")


def exits(action: str, code: int) -> JSON:
    requirement = {"operator": "In", "values": [code]}
    return {"rules": [{"action": action, "onExitCodes": requirement}]}


def failed(count: int, **fields: Any) -> list[Pod]:
    return [pod(f"f{number}", "Failed", **fields) for number in range(count)]


@pytest.mark.parametrize(
    ("subject", "pods", "why"),
    [
        (job(), [], None),
        (job(), running(2), None),
        # The limit of failures: more than backoffLimit.
        (job(backoffLimit=2), failed(2), None),
        (job(backoffLimit=2), failed(3), LIMIT),
        (job({"failed": 2}, backoffLimit=2), failed(1), LIMIT),
        (job({"failed": 2}, backoffLimit=2), failed(1, tracked=False), None),
        (
            job(
                {"failed": 1, "uncountedTerminatedPods": {"failed": ["f0"]}},
                backoffLimit=1,
            ),
            failed(1),
            LIMIT,
        ),
        (job(backoffLimit=0), [pod("p", deleting=True)], LIMIT),
        (
            job(backoffLimit=0, podReplacementPolicy="Failed"),
            [pod("p", deleting=True)],
            None,
        ),
        (
            job(backoffLimit=0, podFailurePolicy=exits("Ignore", 9)),
            [pod("p", "Failed", code=9)],
            None,
        ),
        # Restarts of containers: at least backoffLimit, at least one.
        (job(restart="OnFailure", backoffLimit=3), [pod("p", restarts=2)], None),
        (job(restart="OnFailure", backoffLimit=3), [pod("p", restarts=3)], LIMIT),
        (
            job(restart="OnFailure", backoffLimit=3),
            [pod("p", restarts=1), pod("q", "Pending", restarts=2)],
            LIMIT,
        ),
        (job(restart="OnFailure", backoffLimit=0), [pod("p")], None),
        (job(restart="OnFailure", backoffLimit=0), [pod("p", restarts=1)], LIMIT),
        (
            job(restart="OnFailure", backoffLimit=3),
            [pod("p", "Succeeded", restarts=9)],
            None,
        ),
        (job(backoffLimit=3), [pod("p", restarts=9)], None),
        # The failure policy comes before the limit.
        (
            job(backoffLimit=0, podFailurePolicy=exits("FailJob", 9)),
            [pod("p", "Failed", code=9)],
            POLICY,
        ),
        (
            job(podFailurePolicy=exits("FailJob", 9)),
            [pod("p", "Failed", code=9, tracked=False)],
            POLICY,
        ),
        (job(podFailurePolicy=exits("FailJob", 9)), [pod("p", code=9)], None),
        # The deadline, at 60 s.
        (job(activeDeadlineSeconds=61), running(1), None),
        (job(activeDeadlineSeconds=60), running(1), DEADLINE),
        (job(activeDeadlineSeconds=60, suspend=True), [], None),
        (job({"startTime": None}, activeDeadlineSeconds=60), [], None),
        # Limits of indexes.
        (
            job(indexes=3, backoffLimitPerIndex=0),
            [pod("p", "Failed", index=0), pod("q", "Succeeded", index=1)],
            None,
        ),
        (
            job({"completedIndexes": "2"}, indexes=3, backoffLimitPerIndex=0),
            [pod("p", "Failed", index=0), pod("q", "Succeeded", index=1)],
            INDEXES,
        ),
        (
            job(indexes=3, backoffLimitPerIndex=0, maxFailedIndexes=1),
            [pod("p", "Failed", index=0), pod("q", "Failed", index=1)],
            TOO_MANY_INDEXES,
        ),
        (
            job(indexes=3, backoffLimitPerIndex=0, maxFailedIndexes=1),
            [pod("p", "Failed", index=0), pod("q", "Failed", index=0)],
            None,
        ),
        (
            job(indexes=1, backoffLimitPerIndex=2),
            [pod("p", "Failed", index=0, failures=1)],
            None,
        ),
        (
            job(indexes=1, backoffLimitPerIndex=2),
            [pod("p", "Failed", index=0, failures=2)],
            INDEXES,
        ),
        (job({"failedIndexes": "7"}, indexes=1, backoffLimitPerIndex=2), [], None),
    ],
)
def test_a_job_fails_for_one_reason(
    subject: Job, pods: Sequence[Pod], why: tuple[str, str] | None
) -> None:
    """The reasons and messages are upstream's."""
    expected = FinishedCondition("FailureTarget", *why) if why else None
    assert find_finished_condition(make_tally(subject, pods), at(60)) == expected


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], None),
        ([pod("p", index=1)], None),
        (
            [pod("p", "Succeeded", index=1)],
            FinishedCondition(
                "SuccessCriteriaMet", "SuccessPolicy", "Matched rules at index 0"
            ),
        ),
        # A failure comes first.
        (
            [pod("p", "Succeeded", index=1), pod("q", "Failed", index=0)],
            FinishedCondition("FailureTarget", *LIMIT),
        ),
    ],
)
def test_a_success_policy_ends_a_job(
    pods: Sequence[Pod], expected: FinishedCondition | None
) -> None:
    """It is not applied to a job that fails."""
    policy = {"rules": [{"succeededIndexes": "1"}]}
    subject = job(indexes=3, successPolicy=policy, backoffLimit=0)
    assert find_finished_condition(make_tally(subject, pods), at(60)) == expected


@pytest.mark.parametrize("condition", ["FailureTarget", "SuccessCriteriaMet"])
def test_a_condition_in_the_status_is_final(condition: str) -> None:
    """The state of the pods does not change it."""
    subject = job(standing(condition), podFailurePolicy=exits("FailJob", 9))
    pods = [pod("p", "Failed", code=9)]
    assert find_finished_condition(
        make_tally(subject, pods), at(60)
    ) == FinishedCondition(condition, "R", "M")


REACHED = FinishedCondition(
    "SuccessCriteriaMet",
    "CompletionsReached",
    "Reached expected number of succeeded pods",
)


@pytest.mark.parametrize(
    ("subject", "succeeded", "active", "expected"),
    [
        (job(completions=0), 0, 0, REACHED),
        (job(completions=2), 1, 0, None),
        (job(completions=2), 2, 0, REACHED),
        (job(completions=2), 3, 0, REACHED),
        (job(completions=2), 2, 1, None),
        (job({"succeeded": 1}, completions=2), 1, 0, REACHED),
        # A work queue needs one success, and waits for all its pods.
        (job(), 0, 0, None),
        (job(), 1, 1, None),
        (job(), 1, 0, REACHED),
        # Indexes count, not pods.
        (job({"succeeded": 5}, indexes=2), 1, 0, None),
        (job({"completedIndexes": "1"}, indexes=2), 1, 0, REACHED),
    ],
)
def test_a_job_is_complete_when_enough_pods_succeeded_and_none_is_active(
    subject: Job, succeeded: int, active: int, expected: FinishedCondition | None
) -> None:
    """Pods count before the status has them."""
    ended = [pod(f"s{each}", "Succeeded", index=each) for each in range(succeeded)]
    assert completed(make_tally(subject, ended), active) == expected


@pytest.mark.parametrize(
    ("subject", "seconds"),
    [
        (job(), None),
        (job(activeDeadlineSeconds=90), 30),
        (job(activeDeadlineSeconds=30), -30),
        (job(activeDeadlineSeconds=90, suspend=True), None),
        (job({"startTime": None}, activeDeadlineSeconds=90), None),
        (
            job(activeDeadlineSeconds=2**63 - 1),
            (datetime.max.replace(tzinfo=UTC) - at(60)).total_seconds(),
        ),
    ],
)
def test_a_deadline_counts_from_the_start(subject: Job, seconds: float | None) -> None:
    """A suspended job has none."""
    assert seconds_to_deadline(subject, at(60)) == seconds
