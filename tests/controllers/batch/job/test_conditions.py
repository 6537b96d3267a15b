"""The conditions of a job, and the one reason for which it ends."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controller_manager.api.batch.v1 import Job, JobCondition, SuccessPolicy
from controller_manager.api.core.v1 import Pod
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
    START,
    at,
    job,
    make_tally,
    pod,
    running,
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


def test_a_condition_that_says_the_same_keeps_its_times() -> None:
    """The conditions are the same object, so nothing is written."""
    same = condition("Suspended", "True", "JobSuspended", "Job suspended", at(9))
    conditions = (OTHER, OLD)
    assert with_condition(conditions, same) is conditions


def test_a_condition_that_changes_gets_new_times_in_its_place() -> None:
    """Both times, as upstream sets them."""
    new = condition("Suspended", "False", "JobResumed", "Job resumed", at(9))
    assert with_condition((OLD, OTHER), new) == (
        JobCondition(
            type="Suspended",
            status="False",
            last_probe_time=text(9),
            last_transition_time=text(9),
            reason="JobResumed",
            message="Job resumed",
        ),
        OTHER,
    )


@pytest.mark.parametrize("present", [None, (), (OTHER,)])
def test_a_false_condition_is_not_added(
    present: tuple[JobCondition, ...] | None,
) -> None:
    """The absence of the condition means the same."""
    new = condition("Suspended", "False", "JobResumed", "Job resumed", START)
    assert with_condition(present, new) is present


def test_a_true_condition_is_added_at_the_end() -> None:
    """Also as the first one."""
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
    """And only if they are true."""
    assert is_finished(job(status)) is finished


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
    """The message is upstream's."""
    policy = msgspec.convert({"rules": rules}, SuccessPolicy)
    indexes = IndexSet.parse(succeeded, completions)
    message = None if index is None else f"Matched rules at index {index}"
    assert satisfied(policy, indexes, completions) == message


def test_a_job_without_a_policy_needs_all_its_indexes() -> None:
    """There is no message."""
    assert satisfied(None, IndexSet(((0, 9),)), 10) is None
