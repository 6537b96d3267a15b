"""The tally counts pods once that changed after they were mentioned."""

import pytest

from controller_manager.api.json_objects import JSON
from tests.controllers.batch.job.cases import job, make_tally, names, pod


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
    pods = [
        pod("s1", "Succeeded", index=1),
        pod("f1", "Failed", index=1),
        pod("s2", "Succeeded", index=2),
    ]
    found = make_tally(job(status, indexes=4, backoffLimitPerIndex=0), pods)
    assert found.failed_indexes is not None
    assert (found.completed.format(), found.failed_indexes.format()) == (
        completed,
        failed,
    )
    assert (found.to_replace, names(found.newly_failed)) == ({}, ["f1"])
