"""The failures of an index are counted in annotations of its pods."""

import msgspec
import pytest

from controller_manager.api.batch.v1 import PodFailurePolicy
from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.batch.job.failures import (
    all_failures_of,
    annotations_of_replacement,
    ends_index,
    failures_of,
    pods_to_replace,
)
from tests.controllers.batch.job.pods import ended, job_pod

COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"

POLICY = msgspec.convert(
    {
        "rules": [
            {"action": action, "onExitCodes": {"operator": "In", "values": [code]}}
            for code, action in enumerate(("FailIndex", "Ignore", "Count"), start=9)
        ]
    },
    PodFailurePolicy,
)
FAIL_INDEX = [ended(code=9)]
IGNORE = [ended(code=10)]


@pytest.mark.parametrize(
    ("pod", "failures", "all_failures"),
    [
        (job_pod(), 0, 0),
        (job_pod(failures=3), 3, 3),
        (job_pod(failures=3, ignored=2), 3, 5),
        (job_pod(failures="x", ignored="-1"), 0, 0),
        (job_pod(failures=2**31 - 1, ignored=2**31), 2**31 - 1, 2**31 - 1),
        (Pod(), 0, 0),
    ],
)
def test_counts_that_users_spoilt_are_zero(
    pod: Pod, failures: int, all_failures: int
) -> None:
    """A valid count has 32 bits and is not negative."""
    assert failures_of(pod) == failures
    assert all_failures_of(pod) == all_failures


@pytest.mark.parametrize(
    ("policy", "replaced", "annotations"),
    [
        (None, None, {COUNT: "0"}),
        (POLICY, None, {COUNT: "0"}),
        (None, job_pod(), {COUNT: "1"}),
        (None, job_pod(failures=2, ignored=1), {COUNT: "3", IGNORED: "1"}),
        (POLICY, job_pod(failures=2), {COUNT: "3"}),
        (POLICY, job_pod(failures=2, containers=IGNORE), {COUNT: "2", IGNORED: "1"}),
        (
            POLICY,
            job_pod(failures=2, ignored=4, containers=IGNORE),
            {COUNT: "2", IGNORED: "5"},
        ),
    ],
)
def test_a_replacement_takes_over_the_counts(
    policy: PodFailurePolicy | None,
    replaced: Pod | None,
    annotations: dict[str, str],
) -> None:
    """The failure of the replaced pod is in one of the two counts."""
    assert annotations_of_replacement(policy, replaced) == annotations


@pytest.mark.parametrize(
    ("policy", "pod", "ends"),
    [
        (None, job_pod(failures=0), False),
        (None, job_pod(failures=1), False),
        (None, job_pod(failures=2), True),
        (POLICY, job_pod(failures=2), True),
        (POLICY, job_pod(failures=0, containers=FAIL_INDEX), True),
        (POLICY, job_pod(failures=9, containers=IGNORE), False),
        (POLICY, job_pod(failures=1, ignored=9), False),
    ],
)
def test_an_index_fails_by_its_limit_or_by_the_policy(
    policy: PodFailurePolicy | None, pod: Pod, *, ends: bool
) -> None:
    """The limit here is 2: the third failure that counts is the last."""
    assert ends_index(policy, pod, 2) is ends


def test_the_last_failed_pod_of_each_index_waits_for_its_replacement() -> None:
    """It is the pod with most failures, then the pod that ended last."""
    early, late = ([ended(at=f"2026-01-01T00:00:0{second}Z")] for second in (1, 2))
    pods = [
        job_pod("a", index=0, failures=0, containers=late),
        job_pod("b", index=0, failures=1, containers=early),
        job_pod("c", index=1, failures=1, containers=late),
        job_pod("d", index=1, failures=1, containers=early),
        job_pod("e", index=2, failures=4),
        job_pod("f", index=None, failures=4),
    ]
    for order in (pods, pods[::-1]):
        assert pods_to_replace(order, ({2}, ())) == {0: pods[1], 1: pods[2]}
