"""The ledger finds each way in which a job's pods can be miscounted."""

import copy
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.controllers.batch.job.ledger import Ledger
from tests.controllers.batch.job.stored import FINALIZER, INDEX, asked_for

TRACKED = (FINALIZER,)


def job(**status: Any) -> JSON:
    """Return a job of five completions; `status` is all of its status."""
    spec: JSON = {"completions": 5, "parallelism": 2}
    return {"metadata": {"name": "j", "uid": "J"}, "spec": spec, "status": status}


def deleted(job: JSON) -> JSON:
    """Return a job that selects pods, and is being deleted."""
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {**job["metadata"], "deletionTimestamp": "now"},
        "spec": {**job["spec"], "selector": selector},
        "status": job["status"],
    }


def indexed(**status: Any) -> JSON:
    """Return an indexed job of five completions."""
    found = job(**status)
    found["spec"]["completionMode"] = "Indexed"
    return found


def condition(kind: str) -> list[JSON]:
    """Return the conditions of a job, of which one is true."""
    return [{"type": kind, "status": "True"}]


def pod(
    uid: str,
    phase: str = "Running",
    index: int | None = None,
    finalizers: tuple[str, ...] = TRACKED,
    owner: str = "J",
    **metadata: Any,
) -> JSON:
    """Return a pod that a controller made."""
    return {
        "metadata": {
            "name": uid,
            "uid": uid,
            "generateName": "j-",
            "finalizers": list(finalizers),
            "annotations": {} if index is None else {INDEX: str(index)},
            "ownerReferences": [{"uid": owner, "controller": True}],
            **metadata,
        },
        "status": {"phase": phase},
    }


def uncounted(**uids: list[str]) -> JSON:
    """Return the status field with pods that are listed and not yet counted."""
    return {"uncountedTerminatedPods": uids}


def gone(phase: str) -> JSON:
    """Return a pod that has ended and lost its finalizer."""
    return pod("a", phase, finalizers=())


State = tuple[JSON, list[JSON]]

DONE = {"conditions": condition("Complete")}
HALF = {"succeeded": 1, "completedIndexes": "3"}

RIGHT: dict[str, list[State]] = {
    "one succeeds": [
        (job(), [pod("a")]),
        (job(), [pod("a", "Succeeded")]),
        (job(**uncounted(succeeded=["a"])), [pod("a", "Succeeded")]),
        (job(**uncounted(succeeded=["a"])), [gone("Succeeded")]),
        (job(succeeded=1), [gone("Succeeded")]),
        (job(succeeded=1), []),
    ],
    "one is deleted": [
        (job(), [pod("a")]),
        (job(), [pod("a", deletionTimestamp="now")]),
        (job(**uncounted(failed=["a"])), [pod("a", deletionTimestamp="now")]),
        (job(**uncounted(failed=["a"])), []),
        (job(failed=1), []),
    ],
    "an index is completed": [
        (indexed(), [pod("a", "Succeeded", 0)]),
        (indexed(succeeded=1, completedIndexes="0"), [pod("a", "Succeeded", 0)]),
        (indexed(succeeded=1, completedIndexes="0"), []),
    ],
    "a pod is orphaned while its index is being completed": [
        (indexed(), [pod("a", "Succeeded", 3)]),
        (indexed(), [pod("a", "Succeeded", 3, owner="")]),
        (indexed(), [pod("a", "Succeeded", 3, owner="")]),
        (indexed(**HALF), [pod("a", "Succeeded", 3, owner="")]),
    ],
    "a surplus pod goes": [
        (job(), [pod("a")]),
        (job(), [pod("a", finalizers=())]),
        (job(), [pod("a", finalizers=(), deletionTimestamp="now")]),
    ],
    "a pod is released": [
        (job(), [pod("a", "Failed")]),
        (job(), [pod("a", "Failed", finalizers=(), owner="")]),
    ],
    "a deleted job ends, and keeps a pod that does not match": [
        (deleted(job()), [pod("a", labels={"app": "stranger"})]),
        (deleted(job(**DONE)), [pod("a", labels={"app": "stranger"})]),
    ],
    "a pod comes back to its owner": [
        (indexed(), [pod("a", index=0), pod("b", index=0, owner="")]),
        (indexed(), [pod("a", index=0), pod("b", index=0)]),
    ],
    "it succeeds early": [
        (job(conditions=condition("SuccessCriteriaMet")), [pod("a")]),
        (job(conditions=condition("SuccessCriteriaMet")), []),
        (job(conditions=condition("Complete")), []),
    ],
}

WRONG: dict[str, tuple[list[State], str]] = {
    "lost": (
        [(job(), [pod("a", "Succeeded")]), (job(), [gone("Succeeded")])],
        "j: pod a, Succeeded, lost its finalizer and is not counted",
    ),
    "lost while it goes": (
        [(job(), [pod("a", deletionTimestamp="now")]), (job(), [])],
        "j: pod a, Running, lost its finalizer and is not counted",
    ),
    "lost index": (
        [
            (indexed(), [pod("a", "Succeeded", 1)]),
            (indexed(), [pod("a", "Succeeded", 1, finalizers=())]),
        ],
        "j: pod a, Succeeded, lost its finalizer and is not counted",
    ),
    "counted too early": (
        [
            (job(**uncounted(failed=["a"])), [pod("a", "Failed")]),
            (job(failed=1), [pod("a", "Failed")]),
        ],
        "j: pod a is counted while it has its finalizer",
    ),
    "listed again": (
        [
            (job(**uncounted(failed=["a"])), [pod("a", "Failed")]),
            (job(failed=1), [gone("Failed")]),
            (job(failed=1, **uncounted(failed=["a"])), [gone("Failed")]),
        ],
        "j: pod a is listed again, as failed",
    ),
    "counted twice": (
        [
            (job(**uncounted(failed=["a"])), [gone("Failed")]),
            (job(failed=2), [gone("Failed")]),
        ],
        "j: 2 pods are counted as failed, 1 were listed",
    ),
    "uncounted again": (
        [
            (job(**uncounted(failed=["a"])), [gone("Failed")]),
            (job(), [gone("Failed")]),
        ],
        "j: 0 pods are counted as failed, 1 were listed",
    ),
    "still runs": (
        [(job(**uncounted(succeeded=["a"])), [pod("a")])],
        "j: pod a is listed as succeeded, it is Running",
    ),
    "has not failed": (
        [(job(**uncounted(failed=["a"])), [pod("a", "Succeeded")])],
        "j: pod a is listed as failed, it is Succeeded",
    ),
    "an index out of nothing": (
        [(indexed(**HALF), [])],
        "j: index 3 is completed, and none of its pods succeeded",
    ),
    "an index that a pod of its own has not completed": (
        [
            (indexed(), [pod("a", index=3), pod("b", "Succeeded", 3, owner="")]),
            (indexed(**HALF), [pod("a", index=3), pod("b", "Succeeded", 3, owner="")]),
        ],
        "j: index 3 is completed, and none of its pods succeeded",
    ),
    "a number that is not that of the indexes": (
        [(indexed(succeeded=2), [])],
        "j: 2 succeeded, of indexes set()",
    ),
    "an index is lost": (
        [
            (indexed(), [pod("a", "Succeeded", 3)]),
            (indexed(**HALF), [pod("a", "Succeeded", 3)]),
            (indexed(), [pod("a", "Succeeded", 3)]),
        ],
        "j: indexes ['3'] are no longer completed",
    ),
    "a failed index is forgiven": (
        [(indexed(failedIndexes="1-2"), []), (indexed(failedIndexes="1"), [])],
        "j: indexes ['2'] have no longer failed",
    ),
    "an index is both": (
        [
            (indexed(), [pod("a", "Succeeded", 3)]),
            (indexed(failedIndexes="3", **HALF), [pod("a", "Succeeded", 3)]),
        ],
        "j: indexes ['3'] are completed and have failed",
    ),
    "it changes after its end": (
        [
            (job(conditions=condition("Complete")), []),
            (job(conditions=condition("Complete"), active=1), []),
        ],
        f"j: its status changed after its end, from {DONE}",
    ),
    "both ends": (
        [(job(conditions=condition("Complete") + condition("Failed")), [])],
        "j: it is complete and has failed",
    ),
    "it ends too early": (
        [(job(), [pod("a")]), (job(conditions=condition("Failed")), [pod("a")])],
        "j: it ended while pod a has its finalizer",
    ),
    "it ends with pods to count": (
        [(job(conditions=condition("Failed"), **uncounted(failed=["x"])), [])],
        "j: it ended with uncounted pods",
    ),
    "it ends with pods": (
        [(job(conditions=condition("Failed"), terminating=2), [])],
        "j: it ended with 2 terminating pods",
    ),
    "a pod after the end": (
        [
            (job(conditions=condition("FailureTarget")), []),
            (job(conditions=condition("FailureTarget")), [pod("a")]),
        ],
        "j: pod a was made although the job ends",
    ),
    "a second pod of an index": (
        [
            (indexed(), [pod("a", index=0)]),
            (indexed(), [pod("a", index=0), pod("b", index=0)]),
        ],
        "j: a second pod of index 0",
    ),
    "another pod of an index that succeeded": (
        [
            (indexed(), [pod("a", "Succeeded", 0)]),
            (indexed(), [pod("a", "Succeeded", 0), pod("b", index=0)]),
        ],
        "j: another pod of index 0, which has succeeded",
    ),
    "another pod of an index that is done": (
        [
            (indexed(failedIndexes="0"), []),
            (indexed(failedIndexes="0"), [pod("b", index=0)]),
        ],
        "j: another pod of index 0, which is done",
    ),
}


def problems(states: list[State]) -> list[str]:
    """Return what a new ledger finds in a history."""
    ledger = Ledger()
    return [
        problem
        for job, pods in copy.deepcopy(states)
        for problem in ledger.look([job], pods)
    ]


@pytest.mark.parametrize("name", RIGHT)
def test_no_problem_is_found_in_a_correct_history(name: str) -> None:
    """A correct controller causes each of these histories."""
    assert problems(RIGHT[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_each_mistake_is_found(name: str) -> None:
    """No other problem is found."""
    states, problem = WRONG[name]
    assert problems(states) == [problem]


def test_another_controllers_job_gets_no_pods() -> None:
    """The field managedBy names that controller."""
    other = job()
    other["spec"]["managedBy"] = "example.com/queue"
    assert problems([(other, []), (other, [pod("a")])]) == [
        "j: pod a was made for a job that another controller manages"
    ]


def test_failures_that_the_policy_ignores_are_not_counted() -> None:
    """Here those of pods that were disrupted."""
    ignoring = job()
    pattern = {"type": "DisruptionTarget", "status": "True"}
    rule = {"action": "Ignore", "onPodConditions": [pattern]}
    ignoring["spec"]["podFailurePolicy"] = {"rules": [rule]}
    failed = pod("a", "Failed")
    failed["status"]["conditions"] = [pattern]
    assert problems([(ignoring, [failed]), (ignoring, [])]) == []


def test_every_success_is_asked_for_once() -> None:
    """The success may be counted, listed, or not yet in the status."""
    pods = [pod("a"), pod("b", "Succeeded"), pod("c", "Succeeded"), pod("d", "Failed")]
    assert asked_for(job(succeeded=2, **uncounted(succeeded=["b", "x"])), pods) == (
        1,
        6,
    )
    pods = [pod("a", index=0), pod("b", "Succeeded", 1), pod("c", "Succeeded", 2)]
    assert asked_for(indexed(succeeded=1, completedIndexes="1"), pods) == (1, 3)
