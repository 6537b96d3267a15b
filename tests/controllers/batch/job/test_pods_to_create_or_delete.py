"""A job gets the pods that it needs, and deletes surplus pods in order."""

from collections.abc import Sequence

import pytest

from controller_manager.api.batch.v1 import Job
from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.batch.job.failures import BackoffRecord
from controller_manager.controllers.batch.job.pods import (
    NO_CHANGE,
    PodPlan,
    in_deletion_order,
    plan_pods,
)
from tests.controllers.batch.job.cases import (
    at,
    job,
    make_tally,
    names,
    pod,
    running,
)

NO_NODE = pod("no-node", "Pending", node="")
TERMINATING = pod("t", deleting=True)


def deleted(plan: PodPlan) -> list[str]:
    assert plan == PodPlan(delete=plan.delete)
    return names(plan.delete)


@pytest.mark.parametrize(
    ("subject", "pods", "plan"),
    [
        # As many as parallelism allows, and no more than completions are missing.
        (job(completions=5), [], PodPlan(create=2)),
        (job(completions=1), [], PodPlan(create=1)),
        (job(completions=5, parallelism=0), [], NO_CHANGE),
        (job({"succeeded": 4}, completions=5), [], PodPlan(create=1)),
        (job({"succeeded": 5}, completions=5), [], NO_CHANGE),
        (job(completions=5), running(1), PodPlan(create=1)),
        (job(completions=5), running(2), NO_CHANGE),
        (job(completions=5), [*running(1), pod("s", "Succeeded")], PodPlan(create=1)),
        (
            job({"succeeded": 3}, completions=5),
            [pod("s", "Succeeded")],
            PodPlan(create=1),
        ),
        (
            job({"succeeded": 3}, completions=5),
            [pod("s", "Succeeded", tracked=False)],
            PodPlan(create=2),
        ),
        # A work queue gets no more pods after its first success.
        (job(), [], PodPlan(create=2)),
        (job(), [*running(1), pod("s", "Succeeded")], NO_CHANGE),
        (job({"succeeded": 1}), running(1), NO_CHANGE),
        # A terminating pod is replaced at once, or when it has ended.
        (job(completions=5), [TERMINATING], PodPlan(wait=40.0)),
        (
            job(completions=5, podReplacementPolicy="Failed"),
            [TERMINATING],
            PodPlan(create=1),
        ),
        (job(completions=5, podFailurePolicy={}), [TERMINATING], PodPlan(create=1)),
        # A suspended job has no pods.
        (job(completions=5, suspend=True), [], NO_CHANGE),
        # At most 500 at a time.
        (job(parallelism=10000), [], PodPlan(create=500)),
        # The lowest indexes that are missing.
        (job(indexes=5), [], PodPlan(create=2, indexes=(0, 1))),
        (
            job({"completedIndexes": "0,2"}, indexes=5),
            [],
            PodPlan(create=2, indexes=(1, 3)),
        ),
        (job(indexes=5), [pod("p", index=0)], PodPlan(create=1, indexes=(1,))),
        (
            job(indexes=5, podReplacementPolicy="Failed"),
            [pod("p", index=0, deleting=True)],
            PodPlan(create=1, indexes=(1,)),
        ),
        (
            job({"failedIndexes": "0"}, indexes=2, backoffLimitPerIndex=0),
            [],
            PodPlan(create=1, indexes=(1,)),
        ),
    ],
)
def test_missing_pods_are_created(
    subject: Job, pods: Sequence[Pod], plan: PodPlan
) -> None:
    """The terminating pod counts as failed at 30 s, and nothing waits before that."""
    assert plan_pods(make_tally(subject, pods), at(0)) == plan


@pytest.mark.parametrize(
    ("backoff", "seconds", "plan"),
    [
        (BackoffRecord(1, at(0)), 4, PodPlan(wait=6.0)),
        (BackoffRecord(1, at(0)), 10, PodPlan(create=2)),
        (BackoffRecord(3, at(0)), 10, PodPlan(wait=30.0)),
    ],
)
def test_replacements_wait_for_the_backoff(
    backoff: BackoffRecord, seconds: float, plan: PodPlan
) -> None:
    """The whole job waits, unless its indexes have limits of their own."""
    assert plan_pods(make_tally(job(), backoff=backoff), at(seconds)) == plan
    limited = make_tally(job(indexes=2, backoffLimitPerIndex=1), backoff=backoff)
    assert plan_pods(limited, at(seconds)) == PodPlan(create=2, indexes=(0, 1))


def test_an_index_waits_for_its_own_backoff() -> None:
    """Other indexes go on; only the lowest missing ones are considered, as upstream."""
    failed = pod("p", "Failed", index=0, created=0)
    subject = job(indexes=3, parallelism=2, backoffLimitPerIndex=3)
    among_others = make_tally(subject, [failed])
    assert among_others.to_replace == {0: failed}
    assert plan_pods(among_others, at(4)) == PodPlan(create=1, indexes=(1,))
    alone = make_tally(subject, [failed, pod("q", index=1)])
    assert plan_pods(alone, at(4)) == PodPlan(wait=6.0)
    assert plan_pods(alone, at(10)) == PodPlan(create=1, indexes=(0,))


def test_a_suspended_job_loses_all_its_active_pods() -> None:
    """Those that terminate or have ended are not deleted again."""
    pods = [*running(2), TERMINATING, pod("s", "Succeeded")]
    plan = plan_pods(make_tally(job(suspend=True), pods), at(0))
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
    plan = plan_pods(make_tally(job(indexes=3, parallelism=3), pods), at(0))
    assert deleted(plan) == ["none", "beyond", "negative", "zero-again"]


def test_more_pods_than_wanted_are_deleted_in_the_order_of_removal() -> None:
    """Misplaced pods count among them."""
    pods = [pod("zero", index=0, ready=True), pod("one", index=1), pod("none")]
    plan = plan_pods(make_tally(job(indexes=3, parallelism=1), pods), at(0))
    assert deleted(plan) == ["none", "one"]
    fewer = make_tally(job(completions=9, parallelism=1), running(3))
    assert deleted(plan_pods(fewer, at(0))) == ["r0", "r1"]


def test_at_most_500_pods_are_deleted_at_a_time() -> None:
    """The next sync deletes more."""
    plan = plan_pods(make_tally(job(parallelism=0), running(600)), at(0))
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
