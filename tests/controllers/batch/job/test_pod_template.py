"""The pods that are created for a job."""

import json

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.batch.job.pods import PodPlan, pod_bodies
from tests.controllers.batch.job.cases import job, make_tally, pod

OWNER = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "name": "j",
    "uid": "uid-j",
    "controller": True,
    "blockOwnerDeletion": True,
}
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
    """The finalizers of the template stay."""
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
    """Name, hostname, label, annotation, and a variable in containers without one."""
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
    """The first pod of an index has the count 0."""
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
