"""A job gets the pods that it needs, and deletes surplus pods in order."""

import json
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import controller_reference
from controller_manager.controllers.batch.job.failures import BackoffRecord
from controller_manager.controllers.batch.job.indexes import (
    IndexSet,
    IndexTexts,
    completion_index,
    first_pending,
    indexes_of,
)
from controller_manager.controllers.batch.job.pods import (
    NO_CHANGE,
    PodPlan,
    in_deletion_order,
    plan_pods,
    pod_bodies,
)
from tests.controllers.batch.job.builders import (
    at,
    job,
    job_pod,
    make_tally,
    names,
    pod,
    pods_of,
    running,
)


def deleted(plan: PodPlan) -> list[str]:
    assert plan == PodPlan(delete=plan.delete)
    return names(plan.delete)


@pytest.mark.parametrize(
    ("subject", "pods", "plan"),
    [
        # As many as parallelism allows, and no more than completions are missing.
        (job(completions=5), "", PodPlan(create=2)),
        (job(completions=1), "", PodPlan(create=1)),
        (job(completions=5, parallelism=0), "", NO_CHANGE),
        (job({"succeeded": 4}, completions=5), "", PodPlan(create=1)),
        (job({"succeeded": 5}, completions=5), "", NO_CHANGE),
        (job(completions=5), "r0", PodPlan(create=1)),
        (job(completions=5), "r0, r1", NO_CHANGE),
        (job(completions=5), "r0, s succeeded", PodPlan(create=1)),
        (job({"succeeded": 3}, completions=5), "s succeeded", PodPlan(create=1)),
        (
            job({"succeeded": 3}, completions=5),
            "s succeeded untracked",
            PodPlan(create=2),
        ),
        # A work queue gets no more pods after its first success.
        (job(), "", PodPlan(create=2)),
        (job(), "r0, s succeeded", NO_CHANGE),
        (job({"succeeded": 1}), "r0", NO_CHANGE),
        # A terminating pod is replaced at once, or when it has ended.
        (job(completions=5), "t deleting", PodPlan(wait=40.0)),
        (
            job(completions=5, podReplacementPolicy="Failed"),
            "t deleting",
            PodPlan(create=1),
        ),
        (job(completions=5, podFailurePolicy={}), "t deleting", PodPlan(create=1)),
        # A suspended job has no pods.
        (job(completions=5, suspend=True), "", NO_CHANGE),
        # At most 500 at a time.
        (job(parallelism=10000), "", PodPlan(create=500)),
        # The lowest indexes that are missing.
        (job(indexes=5), "", PodPlan(create=2, indexes=(0, 1))),
        (
            job({"completedIndexes": "0,2"}, indexes=5),
            "",
            PodPlan(create=2, indexes=(1, 3)),
        ),
        (job(indexes=5), "p index=0", PodPlan(create=1, indexes=(1,))),
        (
            job(indexes=5, podReplacementPolicy="Failed"),
            "p index=0 deleting",
            PodPlan(create=1, indexes=(1,)),
        ),
        (
            job({"failedIndexes": "0"}, indexes=2, backoffLimitPerIndex=0),
            "",
            PodPlan(create=1, indexes=(1,)),
        ),
    ],
)
def test_missing_pods_are_created(subject: Job, pods: str, plan: PodPlan) -> None:
    """The terminating pod counts as failed at 30 s, and nothing waits before that."""
    assert plan_pods(make_tally(subject, pods_of(pods)), at(0)) == plan


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


@pytest.mark.parametrize(
    ("spec", "pods", "expected"),
    [
        # A suspended job loses all its active pods.
        ({"suspend": True}, "r0, r1, t deleting, s succeeded", "r0 r1"),
        # Surplus pods go before any is created: those without a valid index, and all
        # but one of the same index. Others go in the order of removal.
        (
            {"indexes": 3, "parallelism": 3},
            "zero index=0 ready, again index=0, none, beyond index=3, less index=-1",
            "none beyond less again",
        ),
        (
            {"indexes": 3, "parallelism": 1},
            "zero index=0 ready, one index=1, none",
            "none one",
        ),
        ({"completions": 9, "parallelism": 1}, "r0, r1, r2", "r0 r1"),
    ],
)
def test_surplus_pods_are_deleted(spec: JSON, pods: str, expected: str) -> None:
    plan = plan_pods(make_tally(job(**spec), pods_of(pods)), at(0))
    assert deleted(plan) == expected.split()


def test_at_most_500_pods_are_deleted_at_a_time() -> None:
    plan = plan_pods(make_tally(job(parallelism=0), running(600)), at(0))
    assert len(deleted(plan)) == 500


def test_pods_in_earlier_stages_are_removed_first() -> None:
    """Not assigned, pending, not ready, ready for a short time, restarted, young."""
    words = (
        "pending pending, unknown unknown, restarted restarts=3, young created=20, "
        "old, ready-restarted ready restarts=1, ready-young ready created=20, "
        "ready-old ready"
    )
    expected = [pod("no-node", "Pending", node=""), *pods_of(words)]
    assert names(in_deletion_order(reversed(expected))) == names(expected)


OWNER = msgspec.to_builtins(controller_reference(job(), JOBS))
VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {
        "fieldRef": {
            "apiVersion": "v1",
            "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']",
        }
    },
}
TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"


def containers(*variables: list[JSON]) -> list[JSON]:
    return [{"name": "c", "image": "i", "env": each} for each in variables]


def test_pods_without_an_index_are_all_the_same() -> None:
    template = {
        "metadata": {
            "labels": {"a": "b"},
            "annotations": {"note": "x"},
            "finalizers": ["example.com/mine"],
        },
        "spec": {"containers": containers([]), "future": 1},
    }
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "j-",
            "namespace": "default",
            "labels": {"a": "b"},
            "annotations": {"note": "x"},
            "finalizers": ["example.com/mine", TRACKING],
            "ownerReferences": [OWNER],
        },
        "spec": template["spec"],
    }
    bodies = pod_bodies(make_tally(job(template=template)), PodPlan(create=2))
    assert [json.loads(each) for each in bodies] == [body, body]


def test_a_pod_has_its_index_in_its_metadata_and_environment() -> None:
    own = [{"name": "JOB_COMPLETION_INDEX", "value": "own"}]
    other = {"name": "A", "value": "b"}
    spec = {"initContainers": containers([]), "containers": containers([other], own)}
    subject = job(indexes=9, template={"metadata": {}, "spec": spec})
    (found,) = pod_bodies(make_tally(subject), PodPlan(create=1, indexes=(7,)))
    assert json.loads(found) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "j-7-",
            "namespace": "default",
            "labels": {INDEX: "7"},
            "annotations": {INDEX: "7"},
            "finalizers": [TRACKING],
            "ownerReferences": [OWNER],
        },
        "spec": {
            "initContainers": containers([VARIABLE]),
            "containers": containers([other, VARIABLE], own),
            "hostname": "j-7",
        },
    }


def test_a_replacement_takes_over_the_failures_of_its_index() -> None:
    subject = job(indexes=9, backoffLimitPerIndex=5)
    tally = make_tally(subject, [pod("p", "Failed", index=1, failures=2)])
    bodies = pod_bodies(tally, PodPlan(create=2, indexes=(0, 1)))
    assert [json.loads(each)["metadata"]["annotations"] for each in bodies] == [
        {INDEX: "0", FAILURES: "0"},
        {INDEX: "1", FAILURES: "3"},
    ]


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("j", "j-12-"), ("j" * 54, "j" * 54 + "-12-"), ("j" * 63, "j" * 54 + "-12-")],
)
def test_a_long_name_is_cut_before_the_index(name: str, prefix: str) -> None:
    """The API server would cut the index."""
    subject = job(indexes=20)
    metadata = subject.metadata.__class__(name=name, namespace="default")
    named = subject.__class__(metadata=metadata, spec=subject.spec)
    (found,) = pod_bodies(make_tally(named), PodPlan(create=1, indexes=(12,)))
    assert json.loads(found)["metadata"]["generateName"] == prefix


INDEXES = st.sets(st.integers(0, 40))


@pytest.mark.parametrize(
    ("text", "completions", "intervals"),
    [
        ("", 10, ()),
        ("0", 10, ((0, 0),)),
        ("1,3-5,7", 10, ((1, 1), (3, 5), (7, 7))),
        ("0,1", 10, ((0, 1),)),
        ("0-2,3-4", 10, ((0, 4),)),
        ("0-9", 5, ((0, 4),)),
        ("0,5", 5, ((0, 0),)),
        ("7-9", 5, ()),
        ("1,x,3", 10, ((1, 1), (3, 3))),
        ("1-x,3", 10, ((3, 3),)),
        ("-1,3", 10, ((3, 3),)),
        (" 1,2_0,٣,4", 10, ((4, 4),)),
        ("5,3", 10, ((3, 3), (5, 5))),
        ("5-3", 10, ()),
        ("0-5,2-3", 10, ((0, 5),)),
        ("1-2-3", 10, ((1, 2),)),
        ("9" * 5000, 10, ()),
        ("3", 0, ()),
    ],
)
def test_a_text_is_parsed_up_to_the_completions(
    text: str, completions: int, intervals: tuple[tuple[int, int], ...]
) -> None:
    assert IndexSet.parse(text, completions) == IndexSet(intervals)


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1], "0,1"),
        ([2, 0, 1], "0-2"),
        ([7, 1, 3, 4, 5, 5], "1,3-5,7"),
        ([0, 1, 3, 4], "0,1,3,4"),
    ],
)
def test_indexes_are_formatted_as_upstream(indexes: list[int], text: str) -> None:
    """Two neighbours have a comma between them, three and more a dash."""
    assert IndexSet.of(indexes).format() == text


@given(INDEXES)
def test_a_set_survives_its_text(indexes: set[int]) -> None:
    """So a status that is written and read again is the same."""
    found = IndexSet.of(indexes)
    assert IndexSet.parse(found.format(), 41) == found
    assert list(found) == sorted(indexes)
    assert len(found) == len(indexes)
    assert {index for index in range(-1, 43) if index in found} == indexes
    assert "1" not in found


@given(INDEXES, INDEXES)
def test_sets_are_combined_as_pythons_are(one: set[int], other: set[int]) -> None:
    """Neighbouring intervals become one, so equal sets are equal values."""
    first, second = IndexSet.of(one), IndexSet.of(other)
    both = IndexSet.of(one | other)
    for union in (first.union(second), first._with_few(second.intervals)):
        assert (union, len(union)) == (both, len(one | other))
    assert first.overlap(second) == len(one & other)


@given(INDEXES, st.integers(0, 45), st.integers(0, 45))
def test_the_lowest_are_pending(taken: set[int], count: int, completions: int) -> None:
    missing = [index for index in range(completions) if index not in taken]
    assert first_pending(IndexSet.of(taken), count, completions) == missing[:count]


def test_pending_indexes_of_a_huge_job_take_no_time_for_the_others() -> None:
    """The job has the largest number of completions, and one taken interval."""
    end = 2**31 - 1
    taken = IndexSet(((1, end - 3),))
    assert len(taken) == end - 3
    assert first_pending(taken, 5, end) == [0, end - 2, end - 1]
    assert first_pending(IndexSet(), 2, end) == [0, 1]


@pytest.mark.parametrize(
    ("annotation", "index"),
    [
        ("0", 0),
        ("12", 12),
        ("+3", 3),
        ("007", 7),
        ("-1", None),
        ("", None),
        (" 1", None),
        ("1.0", None),
        ("٣", None),
        (None, None),
    ],
)
def test_an_index_is_read_as_in_go(annotation: str | None, index: int | None) -> None:
    """A pod without the annotation, or with another text, has no index."""
    assert completion_index(job_pod(index=annotation)) == index


def test_pods_without_an_index_are_left_out() -> None:
    """Two pods of one index are one index."""
    pods = [job_pod(index=index) for index in (4, None, "x", 3, 4, 9)]
    assert indexes_of(pods) == IndexSet(((3, 4), (9, 9)))


COMPLETIONS = 4000
KEY = "default/job"
LONG = ",".join(map(str, range(0, COMPLETIONS, 2)))


def test_the_sets_of_four_texts_of_a_job_are_kept_until_the_job_is_gone() -> None:
    texts = IndexTexts()
    remember = partial(texts.note, KEY, completions=COMPLETIONS, indexes=IndexSet())
    for number in range(6):
        remember(LONG + str(number))
    remember("1,3")
    assert {key: len(each) for key, each in texts._known.items()} == {KEY: 4}
    kept = texts.read(KEY, LONG + "5", COMPLETIONS)
    assert kept == IndexSet()  # as it was noted: the text is not parsed
    assert texts.read(KEY, "1,3", COMPLETIONS) == IndexSet.of([1, 3])
    texts.forget(KEY)
    assert texts._known == {}
