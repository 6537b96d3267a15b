"""A job gets the pods that it needs, and deletes surplus pods in order."""

from collections.abc import Sequence

import pytest

from controller_manager.api.batch.v1 import Job
from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.batch.job.actions import Create, Delete, Plan, Wait
from controller_manager.controllers.batch.job.backoff import BackoffRecord
from controller_manager.controllers.batch.job.decide import (
    in_deletion_order,
    plan_pods,
)
from tests.controllers.batch.job.cases import (
    at,
    job,
    make_view,
    names,
    pod,
    running,
)

NO_NODE = pod("no-node", "Pending", node="")
TERMINATING = pod("t", deleting=True)


def deleted(plan: Plan) -> list[str]:
    assert isinstance(plan, Delete), plan
    return names(plan.pods)


@pytest.mark.parametrize(
    ("subject", "pods", "plan"),
    [
        # As many as parallelism allows, and no more than completions are missing.
        (job(completions=5), [], Create(2)),
        (job(completions=1), [], Create(1)),
        (job(completions=5, parallelism=0), [], None),
        (job({"succeeded": 4}, completions=5), [], Create(1)),
        (job({"succeeded": 5}, completions=5), [], None),
        (job(completions=5), running(1), Create(1)),
        (job(completions=5), running(2), None),
        (job(completions=5), [*running(1), pod("s", "Succeeded")], Create(1)),
        (job({"succeeded": 3}, completions=5), [pod("s", "Succeeded")], Create(1)),
        (
            job({"succeeded": 3}, completions=5),
            [pod("s", "Succeeded", tracked=False)],
            Create(2),
        ),
        # A work queue gets no more pods after its first success.
        (job(), [], Create(2)),
        (job(), [*running(1), pod("s", "Succeeded")], None),
        (job({"succeeded": 1}), running(1), None),
        # A terminating pod is replaced at once, or when it has ended.
        (job(completions=5), [TERMINATING], Wait(40.0)),
        (job(completions=5, podReplacementPolicy="Failed"), [TERMINATING], Create(1)),
        (job(completions=5, podFailurePolicy={}), [TERMINATING], Create(1)),
        # A suspended job has no pods.
        (job(completions=5, suspend=True), [], None),
        # At most 500 at a time.
        (job(parallelism=10000), [], Create(500)),
        # The lowest indexes that are missing.
        (job(indexes=5), [], Create(2, (0, 1))),
        (job({"completedIndexes": "0,2"}, indexes=5), [], Create(2, (1, 3))),
        (job(indexes=5), [pod("p", index=0)], Create(1, (1,))),
        (
            job(indexes=5, podReplacementPolicy="Failed"),
            [pod("p", index=0, deleting=True)],
            Create(1, (1,)),
        ),
        (
            job({"failedIndexes": "0"}, indexes=2, backoffLimitPerIndex=0),
            [],
            Create(1, (1,)),
        ),
    ],
)
def test_missing_pods_are_created(
    subject: Job, pods: Sequence[Pod], plan: Plan
) -> None:
    """The terminating pod counts as failed at 30 s, and nothing waits before that."""
    assert plan_pods(make_view(subject, pods), at(0)) == plan


@pytest.mark.parametrize(
    ("backoff", "seconds", "plan"),
    [
        (BackoffRecord(1, at(0)), 4, Wait(6.0)),
        (BackoffRecord(1, at(0)), 10, Create(2)),
        (BackoffRecord(3, at(0)), 10, Wait(30.0)),
    ],
)
def test_replacements_wait_for_the_backoff(
    backoff: BackoffRecord, seconds: float, plan: Plan
) -> None:
    """The whole job waits, unless its indexes have limits of their own."""
    assert plan_pods(make_view(job(), backoff=backoff), at(seconds)) == plan
    limited = make_view(job(indexes=2, backoffLimitPerIndex=1), backoff=backoff)
    assert plan_pods(limited, at(seconds)) == Create(2, (0, 1))


def test_an_index_waits_for_its_own_backoff() -> None:
    """Other indexes go on; only the lowest missing ones are considered, as upstream."""
    failed = pod("p", "Failed", index=0, created=0)
    subject = job(indexes=3, parallelism=2, backoffLimitPerIndex=3)
    among_others = make_view(subject, [failed])
    assert plan_pods(among_others, at(4)) == Create(1, (1,), {0: failed})
    alone = make_view(subject, [failed, pod("q", index=1)])
    assert plan_pods(alone, at(4)) == Wait(6.0)
    assert plan_pods(alone, at(10)) == Create(1, (0,), {0: failed})


def test_a_suspended_job_loses_all_its_active_pods() -> None:
    """Those that terminate or have ended are not deleted again."""
    pods = [*running(2), TERMINATING, pod("s", "Succeeded")]
    plan = plan_pods(make_view(job(suspend=True), pods), at(0))
    assert deleted(plan) == ["r0", "r1"]


def test_surplus_pods_are_deleted_before_any_is_created() -> None:
    """Pods without a valid index, and all but one of the same index."""
    pods = [
        pod("zero", index=0, ready=True),
        pod("zero-again", index=0),
        pod("none"),
        pod("beyond", index=3),
        pod("negative", index=-1),
    ]
    plan = plan_pods(make_view(job(indexes=3, parallelism=3), pods), at(0))
    assert deleted(plan) == ["none", "beyond", "negative", "zero-again"]


def test_more_pods_than_wanted_are_deleted_in_the_order_of_removal() -> None:
    """Misplaced pods count among them."""
    pods = [pod("zero", index=0, ready=True), pod("one", index=1), pod("none")]
    plan = plan_pods(make_view(job(indexes=3, parallelism=1), pods), at(0))
    assert deleted(plan) == ["none", "one"]
    fewer = make_view(job(completions=9, parallelism=1), running(3))
    assert deleted(plan_pods(fewer, at(0))) == ["r0", "r1"]


def test_at_most_500_pods_are_deleted_at_a_time() -> None:
    """The next sync deletes more."""
    plan = plan_pods(make_view(job(parallelism=0), running(600)), at(0))
    assert len(deleted(plan)) == 500


def test_pods_in_earlier_stages_are_removed_first() -> None:
    """Not assigned, pending, not ready, ready for a short time, restarted, young."""
    expected = [
        NO_NODE,
        pod("pending", "Pending"),
        pod("unknown", "Unknown"),
        pod("restarted", restarts=3),
        pod("young", created=20),
        pod("old"),
        pod("ready-restarted", ready=True, restarts=1),
        pod("ready-young", ready=True, created=20),
        pod("ready-old", ready=True),
    ]
    assert names(in_deletion_order(reversed(expected))) == names(expected)
