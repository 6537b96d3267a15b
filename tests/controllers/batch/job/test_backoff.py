"""Replacements of failed pods wait, longer after each failure."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.batch.job.failures import (
    BackoffRecord,
    delay_after,
    finished_at,
    may_start,
    remaining_for_index,
)
from tests.controllers.batch.job.cases import at, text
from tests.controllers.batch.job.pods import ended, job_pod, running


def pod(seconds: int, **fields: Any) -> Pod:
    """Return a pod that ended at this second."""
    return job_pod(containers=[ended(at=text(seconds))], **fields)


@pytest.mark.parametrize(
    ("failures", "delay"),
    [(-1, 0), (0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (10**9, 600)],
)
def test_the_delay_doubles_up_to_ten_minutes(failures: int, delay: float) -> None:
    """As upstream's, with its defaults."""
    assert delay_after(failures) == delay


@pytest.mark.parametrize(
    ("before", "succeeded", "failed", "after"),
    [
        (BackoffRecord(), [], [], BackoffRecord()),
        (BackoffRecord(2, at(1)), [], [], BackoffRecord(2, at(1))),
        (BackoffRecord(), [], [5], BackoffRecord(1, at(5))),
        (BackoffRecord(2, at(1)), [], [9, 7, 8], BackoffRecord(5, at(9))),
        # Pods are counted when they are seen, which may be late.
        (BackoffRecord(2, at(20)), [], [9], BackoffRecord(3, at(9))),
        (BackoffRecord(2, at(1)), [5], [], BackoffRecord()),
        (BackoffRecord(2, at(1)), [3, 5], [4, 6, 9], BackoffRecord(2, at(9))),
        (BackoffRecord(2, at(1)), [5], [5], BackoffRecord()),
    ],
)
def test_failures_since_the_last_success_count(
    before: BackoffRecord, succeeded: list[int], failed: list[int], after: BackoffRecord
) -> None:
    """The end of the containers decides, not the order of the lists."""
    assert before.after([pod(s) for s in succeeded], [pod(f) for f in failed]) == after


@pytest.mark.parametrize(
    ("backoff", "now", "remaining"),
    [
        (BackoffRecord(), 0, 0),
        (BackoffRecord(1, at(0)), 0, 10),
        (BackoffRecord(1, at(0)), 4, 6),
        (BackoffRecord(1, at(0)), 10, 0),
        (BackoffRecord(1, at(0)), 99, 0),
        (BackoffRecord(3, at(5)), 15, 30),
        (BackoffRecord(0, at(5)), 5, 0),
    ],
)
def test_the_remaining_time_counts_from_the_last_failure(
    backoff: BackoffRecord, now: float, remaining: float
) -> None:
    """It is never negative."""
    assert backoff.remaining(at(now)) == remaining


@given(st.lists(st.integers(0, 100)), st.lists(st.integers(0, 100)))
def test_a_success_never_makes_the_delay_longer(
    succeeded: list[int], failed: list[int]
) -> None:
    """Without a success, a backoff keeps all failures."""
    before = BackoffRecord(3, at(10))
    pods = [pod(each) for each in failed]
    without = before.after([], pods)
    after = before.after([pod(each) for each in succeeded], pods)
    assert delay_after(after.failures) <= delay_after(without.failures)
    assert without.failures == 3 + len(failed)


def test_an_index_waits_by_its_own_failures() -> None:
    """Ignored failures count, too: pods that are evicted at once cause no hot loop."""
    assert remaining_for_index(None, at(0)) == 0
    assert remaining_for_index(pod(0, failures=0), at(3)) == 7
    assert remaining_for_index(pod(0, failures=1, ignored=1), at(3)) == 37


@pytest.mark.parametrize(
    ("now", "indexes", "expected"),
    [
        (3, [0, 1, 2], ([2], 0)),
        (3, [0, 1], ([], 7)),
        (12, [0, 1], ([0], 0)),
        (50, [0, 1], ([0, 1], 0)),
        (3, [], ([], 0)),
    ],
)
def test_indexes_that_need_not_wait_start_before_the_others(
    now: float, indexes: list[int], expected: tuple[list[int], float]
) -> None:
    """If all must wait, the shortest time is returned."""
    replaced = {0: pod(0, failures=0), 1: pod(0, failures=2)}
    assert may_start(indexes, replaced, at(now)) == expected


NOT_READY = {"type": "Ready", "status": "False", "lastTransitionTime": text(30)}
SIDECAR = {"name": "side", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("seconds", "ending"),
    [
        (9, job_pod(containers=[ended(at=text(4)), ended(at=text(9))])),
        # Sidecars end after the containers.
        (
            12,
            job_pod(
                containers=[ended(at=text(4))],
                init_specs=[SIDECAR, {"name": "setup"}],
                init_containers=[ended("side", at=text(12)), ended("setup")],
            ),
        ),
        # One container, or one sidecar, has not ended: the condition counts.
        (
            30,
            job_pod(containers=[ended(at=text(4)), running()], conditions=[NOT_READY]),
        ),
        (30, job_pod(containers=[ended(at=None)], conditions=[NOT_READY])),
        (
            30,
            job_pod(
                containers=[ended(at=text(4))],
                init_specs=[SIDECAR],
                init_containers=[running("side")],
                conditions=[NOT_READY],
            ),
        ),
        (30, job_pod(conditions=[NOT_READY], metadata={"deletionTimestamp": text(40)})),
        (
            10,
            job_pod(
                conditions=[{**NOT_READY, "status": "True"}],
                metadata={
                    "deletionTimestamp": text(40),
                    "deletionGracePeriodSeconds": 30,
                },
            ),
        ),
        (40, job_pod(metadata={"deletionTimestamp": text(40)})),
        (
            2,
            job_pod(conditions=[{"type": "Ready", "status": "False"}], created=text(2)),
        ),
    ],
)
def test_the_end_of_a_pod_comes_from_the_best_source(seconds: int, ending: Pod) -> None:
    """Containers, the Ready condition, the deletion, the creation."""
    assert finished_at(ending) == at(seconds)


def test_the_end_of_a_pod_with_an_endless_grace_period_is_long_ago() -> None:
    """The period may be any number of 64 bits."""
    metadata = {
        "deletionTimestamp": text(40),
        "deletionGracePeriodSeconds": 2**63 - 1,
    }
    ending = job_pod(metadata=metadata)
    assert finished_at(ending) == datetime.min.replace(tzinfo=UTC)
