"""The conditions of a job, and the one reason for which it ends."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controller_manager.api.batch.v1 import Job, JobCondition, SuccessPolicy
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.batch.job.indexes import IndexSet
from controller_manager.controllers.batch.job.status import (
    FinishedCondition,
    completed,
    condition,
    find_finished_condition,
    is_finished,
    satisfied,
    seconds_to_deadline,
    with_condition,
)
from tests.controllers.batch.job.builders import (
    at,
    job,
    make_tally,
    pod,
    pods_of,
    standing,
    text,
)

OLD = JobCondition(
    type="Suspended",
    status="True",
    last_probe_time=text(0),
    last_transition_time=text(0),
    reason="JobSuspended",
    message="Job suspended",
)
OTHER = JobCondition(type="FailureTarget", status="True")


RESUMED = condition("Suspended", "False", "JobResumed", "Job resumed", at(9))
SAME = condition("Suspended", "True", "JobSuspended", "Job suspended", at(9))


def test_a_condition_that_changes_gets_new_times_in_its_place() -> None:
    assert (RESUMED.last_probe_time, RESUMED.last_transition_time) == (text(9), text(9))
    assert with_condition((OLD, OTHER), RESUMED) == (RESUMED, OTHER)


@pytest.mark.parametrize(
    ("present", "new"),
    [((OTHER, OLD), SAME), (None, RESUMED), ((), RESUMED), ((OTHER,), RESUMED)],
)
def test_a_condition_that_says_the_same_changes_nothing(
    present: tuple[JobCondition, ...] | None, new: JobCondition
) -> None:
    """As an absent one that would be false. So nothing is written."""
    assert with_condition(present, new) is present


def test_a_true_condition_is_added_at_the_end() -> None:
    assert with_condition((OTHER,), OLD) == (OTHER, OLD)
    assert with_condition(None, OLD) == (OLD,)


@pytest.mark.parametrize(
    ("status", "finished"),
    [
        ({}, False),
        (standing("Complete"), True),
        (standing("Failed"), True),
        (standing("FailureTarget"), False),
        (standing("SuccessCriteriaMet"), False),
        ({"conditions": [{"type": "Failed", "status": "False"}]}, False),
    ],
)
def test_only_two_conditions_end_a_job(status: JSON, finished: bool) -> None:
    assert is_finished(job(status)) is finished


LIMIT = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = ("DeadlineExceeded", "Job was active longer than specified deadline")
INDEXES = ("FailedIndexes", "Job has failed indexes")
TOO_MANY_INDEXES = (
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)
MATCHED = ("SuccessPolicy", "Matched rules at index 0")
SUCCESS: dict[str, Any] = {
    "indexes": 3,
    "successPolicy": {"rules": [{"succeededIndexes": "1"}]},
    "backoffLimit": 0,
}
_FOUND = "Container c for pod default/p failed with exit code 9"
POLICY = ("PodFailurePolicy", f"{_FOUND} matching FailJob rule at index 0")


def exits(action: str, code: int) -> JSON:
    requirement = {"operator": "In", "values": [code]}
    return {"rules": [{"action": action, "onExitCodes": requirement}]}


FAIL, IGNORE = exits("FailJob", 9), exits("Ignore", 9)
FIRST_FAILED = {"failed": 1, "uncountedTerminatedPods": {"failed": ["f0"]}}
ON_FAILURE: dict[str, Any] = {"restart": "OnFailure", "backoffLimit": 3}
THREE: dict[str, Any] = {"indexes": 3, "backoffLimitPerIndex": 0}


@pytest.mark.parametrize(
    ("subject", "pods", "why"),
    [
        (job(), "", None),
        (job(), "r0, r1", None),
        # The limit of failures: more than backoffLimit.
        (job(backoffLimit=2), "f0 failed, f1 failed", None),
        (job(backoffLimit=2), "f0 failed, f1 failed, f2 failed", LIMIT),
        (job({"failed": 2}, backoffLimit=2), "f0 failed", LIMIT),
        (job({"failed": 2}, backoffLimit=2), "f0 failed untracked", None),
        (job(FIRST_FAILED, backoffLimit=1), "f0 failed", LIMIT),
        (job(backoffLimit=0), "p deleting", LIMIT),
        (job(backoffLimit=0, podReplacementPolicy="Failed"), "p deleting", None),
        (job(backoffLimit=0, podFailurePolicy=IGNORE), "p failed code=9", None),
        # Restarts of containers: at least backoffLimit, at least one.
        (job(**ON_FAILURE), "p restarts=2", None),
        (job(**ON_FAILURE), "p restarts=3", LIMIT),
        (job(**ON_FAILURE), "p restarts=1, q pending restarts=2", LIMIT),
        (job(restart="OnFailure", backoffLimit=0), "p", None),
        (job(restart="OnFailure", backoffLimit=0), "p restarts=1", LIMIT),
        (job(**ON_FAILURE), "p succeeded restarts=9", None),
        (job(backoffLimit=3), "p restarts=9", None),
        # The failure policy comes before the limit.
        (job(backoffLimit=0, podFailurePolicy=FAIL), "p failed code=9", POLICY),
        (job(podFailurePolicy=FAIL), "p failed code=9 untracked", POLICY),
        (job(podFailurePolicy=FAIL), "p code=9", None),
        # The deadline, at 60 s.
        (job(activeDeadlineSeconds=61), "r0", None),
        (job(activeDeadlineSeconds=60), "r0", DEADLINE),
        (job(activeDeadlineSeconds=60, suspend=True), "", None),
        (job({"startTime": None}, activeDeadlineSeconds=60), "", None),
        # Limits of indexes.
        (job(**THREE), "p failed index=0, q succeeded index=1", None),
        (
            job({"completedIndexes": "2"}, **THREE),
            "p failed index=0, q succeeded index=1",
            INDEXES,
        ),
        (
            job(**THREE, maxFailedIndexes=1),
            "p failed index=0, q failed index=1",
            TOO_MANY_INDEXES,
        ),
        (job(**THREE, maxFailedIndexes=1), "p failed index=0, q failed index=0", None),
        (job(indexes=1, backoffLimitPerIndex=2), "p failed index=0 failures=1", None),
        (
            job(indexes=1, backoffLimitPerIndex=2),
            "p failed index=0 failures=2",
            INDEXES,
        ),
        (job({"failedIndexes": "7"}, indexes=1, backoffLimitPerIndex=2), "", None),
        # A success policy is not applied to a job that fails.
        (job(**SUCCESS), "", None),
        (job(**SUCCESS), "p index=1", None),
        (job(**SUCCESS), "p succeeded index=1", MATCHED),
        (job(**SUCCESS), "p succeeded index=1, q failed index=0", LIMIT),
    ],
)
def test_a_job_ends_for_one_reason(
    subject: Job, pods: str, why: tuple[str, str] | None
) -> None:
    kind = "SuccessCriteriaMet" if why == MATCHED else "FailureTarget"
    expected = FinishedCondition(kind, *why) if why else None
    tally = make_tally(subject, pods_of(pods))
    assert find_finished_condition(tally, at(60)) == expected


@pytest.mark.parametrize("condition", ["FailureTarget", "SuccessCriteriaMet"])
def test_a_condition_in_the_status_is_final(condition: str) -> None:
    """The state of the pods does not change it."""
    subject = job(standing(condition), podFailurePolicy=FAIL)
    found = find_finished_condition(
        make_tally(subject, pods_of("p failed code=9")), at(60)
    )
    assert found == FinishedCondition(condition, "R", "M")


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
    assert seconds_to_deadline(subject, at(60)) == seconds


@pytest.mark.parametrize(
    ("rules", "succeeded", "completions", "index"),
    [
        ([], "0-9", 10, None),
        ([{"succeededCount": 3}], "0-2", 10, 0),
        ([{"succeededCount": 3}], "0,5", 10, None),
        ([{"succeededIndexes": "0,2-4"}], "0,2,3", 10, None),
        ([{"succeededIndexes": "0,2-4"}], "0-4,7", 10, 0),
        ([{"succeededIndexes": "0-9", "succeededCount": 2}], "1,8", 10, 0),
        ([{"succeededIndexes": "0-4", "succeededCount": 2}], "1,8", 10, None),
        ([{"succeededIndexes": "9"}, {"succeededCount": 1}], "3", 10, 1),
        ([{"succeededCount": 1}, {"succeededIndexes": "3"}], "3", 10, 0),
        # The job was made smaller, so the rule asks for less.
        ([{"succeededIndexes": "0-9"}], "0-2", 3, 0),
        ([{"succeededIndexes": "5-9"}], "0-2", 3, None),
        ([{"succeededIndexes": ""}], "0-2", 3, None),
        ([{}], "0-2", 3, None),
        ([{"succeededCount": 1}], "", 3, None),
    ],
)
def test_the_first_satisfied_rule_is_named(
    rules: list[dict[str, Any]], succeeded: str, completions: int, index: int | None
) -> None:
    """The message is upstream's; without a policy all indexes are needed."""
    policy = msgspec.convert({"rules": rules}, SuccessPolicy)
    indexes = IndexSet.parse(succeeded, completions)
    message = None if index is None else f"Matched rules at index {index}"
    assert satisfied(policy, indexes, completions) == message
    assert satisfied(None, indexes, completions) is None
