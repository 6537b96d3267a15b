"""Statuses of a job that a server refuses (batch/validation)."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.controllers.builders import completed_job_status
from tests.devcluster.registry.requests import causes, create, update

pytestmark = pytest.mark.looptime

THEN, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
INDEXED = {"completionMode": "Indexed", "completions": 4, "parallelism": 2}
LIMITED = {**INDEXED, "backoffLimitPerIndex": 1}


def true(*types: str) -> JSON:
    return {"conditions": [{"type": each, "status": "True"} for each in types]}


FAILED = {"startTime": THEN, **true("FailureTarget", "Failed")}
COMPLETE = completed_job_status(THEN)


@pytest.mark.parametrize(
    ("spec", "before", "after", "expected"),
    [
        (
            {},
            {},
            {"active": -1},
            "active: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            {},
            {},
            {"ready": 1},
            "ready: Invalid value: 1: cannot set more ready pods than active",
        ),
        (
            {},
            {"active": 2, "ready": 2},
            {"active": 1},
            "ready: Invalid value: 2: cannot set more ready pods than active",
        ),
        (
            {},
            {},
            {"uncountedTerminatedPods": {"failed": ["a", "b", "a"]}},
            'uncountedTerminatedPods.failed[2]: Duplicate value: "a"',
        ),
        (
            {},
            {},
            {"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a"]}},
            'uncountedTerminatedPods.failed[0]: Duplicate value: "a"',
        ),
        (
            {},
            {},
            {**COMPLETE, "completionTime": None},
            (
                "completionTime: Required value: completionTime is required for "
                "Complete jobs"
            ),
        ),
        (
            {},
            {},
            {"completionTime": THEN},
            (
                f'completionTime: Invalid value: "{THEN}": cannot set '
                "completionTime when there is no Complete=True condition"
            ),
        ),
        (
            {},
            {},
            {**COMPLETE, "startTime": LATER},
            (
                f'completionTime: Invalid value: "{THEN}": completionTime cannot be '
                "set before startTime"
            ),
        ),
        (
            {},
            COMPLETE,
            {"completionTime": LATER},
            (
                f'completionTime: Invalid value: "{LATER}": completionTime cannot '
                "be mutated"
            ),
        ),
        (
            {},
            {},
            {**COMPLETE, "startTime": None},
            "startTime: Required value: startTime is required for finished job",
        ),
        (
            {},
            {},
            {**COMPLETE, "active": 1},
            "active: Invalid value: 1: active>0 is invalid for finished job",
        ),
        (
            {},
            {},
            {**COMPLETE, "terminating": 1},
            "terminating: Invalid value: 1: terminating>0 is invalid for finished job",
        ),
        (
            {},
            {},
            {**COMPLETE, "uncountedTerminatedPods": {"failed": ["a"]}},
            (
                "uncountedTerminatedPods: uncountedTerminatedPods needs to be "
                "empty for finished job"
            ),
        ),
        (
            {},
            {},
            {**COMPLETE, **true("Complete")},
            (
                "conditions: Invalid value: cannot set Complete=True condition "
                "without the SuccessCriteriaMet=true condition"
            ),
        ),
        (
            {},
            {},
            {**FAILED, **true("Failed")},
            (
                "conditions: Invalid value: cannot set Failed=True condition "
                "without the FailureTarget=true condition"
            ),
        ),
        (
            {},
            {},
            {**FAILED, "startTime": None},
            "startTime: Required value: startTime is required for finished job",
        ),
        (
            {},
            FAILED,
            true("FailureTarget", "Failed", "SuccessCriteriaMet"),
            (
                "conditions: Invalid value: cannot set SuccessCriteriaMet=True and "
                "Failed=true conditions"
            ),
        ),
        (
            {},
            FAILED,
            true("FailureTarget"),
            (
                "conditions: Invalid value: cannot disable the terminal "
                "Failed=True condition"
            ),
        ),
        (
            {},
            true("SuccessCriteriaMet"),
            true(),
            (
                "conditions: Invalid value: cannot disable the "
                "SuccessCriteriaMet=True condition"
            ),
        ),
        (
            {},
            {"failed": 2},
            {"failed": 1},
            "failed: Invalid value: 1: cannot decrease the failed counter",
        ),
        (
            {},
            {"succeeded": 2},
            {"succeeded": 1},
            "succeeded: Invalid value: 1: cannot decrease the succeeded counter",
        ),
        (
            {},
            {"startTime": THEN},
            {"startTime": LATER},
            (
                "startTime: Required value: startTime cannot be removed for "
                "unsuspended job"
            ),
        ),
        (
            {},
            {},
            {"completedIndexes": "0"},
            (
                'completedIndexes: Invalid value: "0": cannot set non-empty '
                "completedIndexes when non-indexed completion mode"
            ),
        ),
        (
            INDEXED,
            {},
            {"completedIndexes": "0,4"},
            (
                'completedIndexes: Invalid value: "0,4": error parsing '
                'completedIndexes: too large index: "4"'
            ),
        ),
        (
            INDEXED,
            {},
            {"completedIndexes": "2,1"},
            (
                'completedIndexes: Invalid value: "2,1": error parsing '
                "completedIndexes: non-increasing order, previous: 2, current: 1"
            ),
        ),
        (
            INDEXED,
            {},
            {"failedIndexes": ""},
            (
                'failedIndexes: Invalid value: "": cannot set non-null '
                "failedIndexes when backoffLimitPerIndex is null"
            ),
        ),
        (
            LIMITED,
            {},
            {"failedIndexes": "a"},
            (
                'failedIndexes: Invalid value: "a": error parsing failedIndexes: '
                'cannot convert string to integer for index: "a"'
            ),
        ),
        (
            LIMITED,
            {},
            {"completedIndexes": "0-2", "failedIndexes": "2,3"},
            (
                'failedIndexes: Invalid value: "2,3": failedIndexes and '
                "completedIndexes overlap at index: 2"
            ),
        ),
    ],
)
async def test_a_wrong_status_is_refused(
    cluster: Cluster, spec: JSON, before: JSON, after: JSON, expected: str
) -> None:
    """With upstream's message."""
    job = create(cluster, "Job", {"spec": spec})
    job = update(cluster, job, {"status": before}, "status")
    with pytest.raises(Refusal) as caught:
        update(cluster, job, {"status": after}, "status")
    assert f"status.{expected}" in causes(caught.value)


@pytest.mark.parametrize(
    ("spec", "before", "after"),
    [
        ({}, {}, COMPLETE),
        ({}, {}, FAILED),
        ({}, {"active": 1, "ready": 1}, {"active": 0, "ready": 0}),
        ({}, COMPLETE, {"conditions": [*COMPLETE["conditions"], {"type": "X"}]}),
        ({"suspend": True}, {"startTime": THEN}, {"startTime": None}),
        (
            {},
            {"startTime": THEN, **true("Suspended")},
            {
                "startTime": LATER,
                "conditions": [{"type": "Suspended", "status": "False"}],
            },
        ),
        (LIMITED, {}, {"completedIndexes": "0-1", "failedIndexes": "2,3"}),
        ({**INDEXED, "parallelism": 4}, {"succeeded": 4}, {"succeeded": 3}),
    ],
)
async def test_a_right_status_is_stored(
    cluster: Cluster, spec: JSON, before: JSON, after: JSON
) -> None:
    """It is no new generation."""
    job = create(cluster, "Job", {"spec": spec})
    job = update(cluster, job, {"status": before}, "status")
    changed = update(cluster, job, {"status": after}, "status")
    assert changed["metadata"]["generation"] == 1


async def test_a_status_that_broke_a_rule_before_can_be_written(
    cluster: Cluster,
) -> None:
    """As long as the write does not change the fields of the rule."""
    job = create(cluster, "Job", {"spec": {**INDEXED, "parallelism": 4}})
    job = update(cluster, job, {"status": {"completedIndexes": "0-3"}}, "status")
    job = update(cluster, job, {"spec": {"completions": 2, "parallelism": 2}})
    job = update(cluster, job, {"status": {"failed": 1}}, "status")
    with pytest.raises(Refusal, match="too large index"):
        update(cluster, job, {"status": {"completedIndexes": "1-3"}}, "status")
