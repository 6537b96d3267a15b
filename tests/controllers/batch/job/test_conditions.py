"""The conditions of a job change only when they say something else."""

import pytest

from controller_manager.api.batch.v1 import JobCondition
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.batch.job.status import (
    condition,
    is_finished,
    with_condition,
)
from tests.controllers.batch.job.cases import START, at, job, standing, text

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
