"""Gangs are found, and get a workload and a group of pods."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.api.scheduling.v1alpha2 import Workload
from controller_manager.controllers.batch.job.gang_scheduling import (
    is_gang,
    is_new,
    pod_group_body,
    pod_group_name,
    workload_body,
    workload_name,
)
from tests.controllers.batch.job.cases import job, pod, standing, text

OWNER = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "name": "j",
    "uid": "uid-j",
    "controller": True,
    "blockOwnerDeletion": True,
}
GANG = {"gang": {"minCount": 3}}
NAMED = {"metadata": {}, "spec": {"schedulingGroup": {"podGroupName": "g"}}}


def encoded(body: JSON) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"indexes": 2, "parallelism": 2}, True),
        ({"indexes": 1, "parallelism": 1}, False),
        ({"indexes": 0, "parallelism": 0}, False),
        ({"indexes": 4, "parallelism": 2}, False),
        ({"indexes": 2, "parallelism": 4}, False),
        ({"indexes": 2, "parallelism": None}, False),
        ({"completions": 2, "parallelism": 2}, False),
        ({"completions": None, "parallelism": 2}, False),
        ({"indexes": 2, "parallelism": 2, "template": NAMED}, False),
    ],
)
def test_a_gang_is_an_indexed_job_whose_pods_all_run_at_a_time(
    spec: JSON, *, expected: bool
) -> None:
    """It has more than one pod, and names no group in its template."""
    assert is_gang(job(**spec)) == expected


@pytest.mark.parametrize(
    "status",
    [
        {"startTime": text(0)},
        {"startTime": None, "succeeded": 1},
        {"startTime": None, "failed": 1},
        {"startTime": None, **standing("Suspended")},
        {
            "startTime": None,
            "conditions": [{"type": "Suspended", "status": "False"}],
        },
    ],
)
def test_a_job_that_may_have_had_pods_is_not_new(status: JSON) -> None:
    """Each sign alone is enough: the other signs may be gone."""
    assert is_new(job({"startTime": None}), ())
    assert not is_new(job({"startTime": None}), (pod("p"),))
    assert not is_new(job(status), ())


def test_a_workload_has_one_template_for_all_pods() -> None:
    """The gang is as large as the job is parallel."""
    body = workload_body(job(indexes=3, parallelism=3))
    assert encoded(body) == {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "Workload",
        "metadata": {
            "name": workload_name("j", "uid-j"),
            "namespace": "default",
            "ownerReferences": [OWNER],
        },
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
            "podGroupTemplates": [{"name": "j-pgt-0", "schedulingPolicy": GANG}],
        },
    }


@pytest.mark.parametrize("policy", [GANG, {"basic": {}}])
def test_a_group_has_the_policy_of_the_template(policy: JSON) -> None:
    """The job controls it, and the workload owns it, too."""
    workload = msgspec.convert(
        {
            "metadata": {"name": "w", "namespace": "default", "uid": "uid-w"},
            "spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": policy}]},
        },
        Workload,
    )
    body = pod_group_body(job(indexes=3, parallelism=3), workload)
    owner = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "Workload",
        "name": "w",
        "uid": "uid-w",
    }
    origin = {"workloadName": "w", "podGroupTemplateName": "t"}
    assert encoded(body) == {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": pod_group_name("w", "t"),
            "namespace": "default",
            "ownerReferences": [OWNER, owner],
        },
        "spec": {
            "podGroupTemplateRef": {"workload": origin},
            "schedulingPolicy": policy,
        },
    }


def test_names_follow_from_the_uid_of_the_job() -> None:
    """A second manager computes the same names, and two jobs never have the same."""
    assert workload_name("j", "1") == "j-84696766"
    assert workload_name("j", "2") != workload_name("j", "1")
    assert pod_group_name("w", "t") == "w-t-56b6fd67c8"


@pytest.mark.parametrize(
    ("workload", "template", "kept"),
    [
        (1, 252, (1, None)),
        (252, 1, (None, 1)),
        (253, 253, (None, None)),
        (60, 60, (60, 60)),
    ],
)
def test_a_long_name_is_cut_and_keeps_its_hash(
    workload: int, template: int, kept: tuple[int | None, int | None]
) -> None:
    """A name has at most 253 characters; a short part is not cut."""
    name = pod_group_name("w" * workload, "t" * template)
    first, second, digest = name.split("-")
    assert len(name) == min(253, workload + template + len(digest) + 2)
    for part, expected in zip((first, second), kept, strict=True):
        assert len(part) == expected or (expected is None and len(part) > 100)
    assert len(workload_name("j" * 253, "1")) == 253
