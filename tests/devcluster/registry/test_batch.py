"""Jobs select their pods, refuse most changes, and check their status and indexes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.batch.job_validation import (
    Interval,
    first_common_index,
    parse_indexes,
    total,
)
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.controllers.builders import completed_job_status
from tests.devcluster.registry.requests import create, update
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime


async def test_a_job_selects_its_own_pods(cluster: Cluster) -> None:
    container = {"name": "c", "image": "a:v1"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    path = "/apis/batch/v1/namespaces/default/jobs"
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": template},
    }
    job = msgspec.json.decode(
        (await call(cluster, "POST", path, msgspec.json.encode(body))).body
    )
    uid = job["metadata"]["uid"]
    assert job["spec"]["selector"] == {
        "matchLabels": {"batch.kubernetes.io/controller-uid": uid}
    }
    assert job["spec"]["completions"] == 1
    answer = await call(cluster, "DELETE", f"{path}/j")
    deleted = msgspec.json.decode(answer.body)
    assert deleted["metadata"]["finalizers"] == ["orphan"]
    assert answer.headers["warning"] == (
        '299 - "child pods are preserved by default when jobs are deleted; set '
        "propagationPolicy=Background to remove them or set propagationPolicy=Orphan "
        'to suppress this warning"'
    )


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
async def test_a_delete_with_a_propagation_policy_has_no_warning(
    cluster: Cluster, policy: str
) -> None:
    create(cluster, "Job")
    path = "/apis/batch/v1/namespaces/default/jobs"
    for each in (f"{path}/a", path):
        answer = await call(cluster, "DELETE", f"{each}?propagationPolicy={policy}")
        assert answer.status in (200, 404)
        assert "warning" not in answer.headers


async def test_a_manual_selector_is_left_alone(cluster: Cluster) -> None:
    spec = {
        "manualSelector": True,
        "selector": {"matchLabels": {"app": "a"}},
        "podFailurePolicy": {"rules": []},
    }
    job = create(cluster, "Job", {"spec": spec})
    assert job["spec"]["selector"] == {"matchLabels": {"app": "a"}}
    assert job["spec"]["template"]["metadata"]["labels"] == {"app": "a"}
    assert job["metadata"]["labels"] == {"app": "a"}
    assert job["spec"]["podReplacementPolicy"] == "Failed"


@rows("before", "after")
async def test_the_rest_of_the_spec_can_be_changed(
    cluster: Cluster, before: JSON, after: JSON
) -> None:
    job = create(cluster, "Job", {"spec": before})
    assert job["metadata"]["generation"] == 1
    changed = update(cluster, job, {"spec": after})
    assert changed["metadata"]["generation"] == 2


async def test_the_resources_of_a_stopped_job_can_be_changed(cluster: Cluster) -> None:
    job = create(cluster, "Job", {"spec": {"suspend": True}})
    container = job["spec"]["template"]["spec"]["containers"][0]
    larger = {**container, "resources": {"requests": {"cpu": "2"}}}
    change = {"spec": {"template": {"spec": {"containers": [larger]}}}}
    started = {"startTime": "2026-01-01T00:00:00Z"}
    job = update(cluster, job, {"status": started}, "status")
    with pytest.raises(Refusal, match="field is immutable"):
        update(cluster, job, change)
    condition = {"type": "Suspended", "status": "True"}
    job = update(cluster, job, {"status": {"conditions": [condition]}}, "status")
    assert update(cluster, job, change)["metadata"]["generation"] == 2


THEN, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
ELASTIC = {"completionMode": "Indexed", "completions": 4, "parallelism": 2}
LIMITED = {**ELASTIC, "backoffLimitPerIndex": 1}


def true(*types: str) -> JSON:
    return {"conditions": [{"type": each, "status": "True"} for each in types]}


FAILED = {"startTime": THEN, **true("FailureTarget", "Failed")}
COMPLETE = completed_job_status(THEN)


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
        ({**ELASTIC, "parallelism": 4}, {"succeeded": 4}, {"succeeded": 3}),
    ],
)
async def test_a_right_status_is_stored(
    cluster: Cluster, spec: JSON, before: JSON, after: JSON
) -> None:
    job = create(cluster, "Job", {"spec": spec})
    job = update(cluster, job, {"status": before}, "status")
    changed = update(cluster, job, {"status": after}, "status")
    assert changed["metadata"]["generation"] == 1


async def test_a_status_that_broke_a_rule_before_can_be_written(
    cluster: Cluster,
) -> None:
    job = create(cluster, "Job", {"spec": {**ELASTIC, "parallelism": 4}})
    job = update(cluster, job, {"status": {"completedIndexes": "0-3"}}, "status")
    job = update(cluster, job, {"spec": {"completions": 2, "parallelism": 2}})
    job = update(cluster, job, {"status": {"failed": 1}}, "status")
    with pytest.raises(Refusal, match="too large index"):
        update(cluster, job, {"status": {"completedIndexes": "1-3"}}, "status")


def as_text(indexes: set[int]) -> str:
    """Return indexes as upstream writes them: two in a row as ``1,2`` or ``1-2``."""
    ends = sorted(each for each in indexes if each + 1 not in indexes)
    starts = sorted(each for each in indexes if each - 1 not in indexes)
    pairs = zip(starts, ends, strict=True)
    return ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in pairs
    )


_INDEXES = st.sets(st.integers(0, 30))


@given(_INDEXES)
def test_indexes_are_read_as_they_are_written(indexes: set[int]) -> None:
    intervals = parse_indexes(as_text(indexes), 31)
    assert {each for i in intervals for each in range(i.first, i.last + 1)} == indexes
    assert total(intervals) == len(indexes)
    if indexes:
        with pytest.raises(ValueError, match="too large index"):
            parse_indexes(as_text(indexes), max(indexes))


@given(_INDEXES, _INDEXES)
def test_the_first_common_index_is_in_both(one: set[int], other: set[int]) -> None:
    common = first_common_index(*(parse_indexes(as_text(x), 31) for x in (one, other)))
    assert common == min(one & other, default=None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1-2-3", 'the fragment "1-2-3" violates the requirement'),
        ("3-1", "non-increasing order, previous: 3, current: 1"),
        ("1,1", "non-increasing order, previous: 1, current: 1"),
        ("1,,2", 'cannot convert string to integer for index: ""'),
        ("1, 2", 'cannot convert string to integer for index: " 2"'),
        ("1-x", 'cannot convert string to integer for index: "x"'),
        ("7-9", 'too large index: "9"'),
    ],
)
def test_malformed_indexes_are_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_indexes(text, 9)


def test_no_indexes_are_an_empty_text() -> None:
    assert parse_indexes("", 9) == []
    assert parse_indexes("4", 9) == [Interval(4, 4)]
