"""Jobs that a server refuses (batch/validation), and their mutable fields."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create, update

pytestmark = pytest.mark.looptime

INDEXED = {"completionMode": "Indexed", "completions": 4}
IN = {"operator": "In", "values": [1]}


def rule(**more: Any) -> JSON:
    return {"podFailurePolicy": {"rules": [{"action": "FailJob", **more}]}}


RULE = "spec.podFailurePolicy.rules[0]"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"parallelism": -1}, "spec.parallelism: Invalid value: -1: NOT_NEGATIVE"),
        ({"backoffLimit": -1}, "spec.backoffLimit: Invalid value: -1: NOT_NEGATIVE"),
        (
            {"completionMode": "Odd"},
            (
                'spec.completionMode: Unsupported value: "Odd": supported values: '
                '"NonIndexed", "Indexed"'
            ),
        ),
        (
            {"completionMode": "Indexed", "parallelism": 1},
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        (
            {"backoffLimitPerIndex": 1},
            (
                "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed "
                "completion mode"
            ),
        ),
        (
            {**INDEXED, "maxFailedIndexes": 1},
            (
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is "
                "specified"
            ),
        ),
        (
            {**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 5},
            (
                "spec.maxFailedIndexes: Invalid value: 5: must be less than or "
                "equal to completions"
            ),
        ),
        (
            {**INDEXED, "parallelism": 100_001},
            (
                "spec.parallelism: Invalid value: 100001: must be less than or "
                "equal to 100000 when completion mode is Indexed"
            ),
        ),
        (
            {**INDEXED, "completions": 100_001, "backoffLimitPerIndex": 1},
            (
                "spec.maxFailedIndexes: Required value: must be specified when "
                "completions is above 100000"
            ),
        ),
        (
            {"managedBy": "me"},
            (
                'spec.managedBy: Invalid value: "me": must be a domain-prefixed '
                'path (such as "acme.io/foo")'
            ),
        ),
        ({"managedBy": ""}, "spec.managedBy: Required value"),
        (
            {"podReplacementPolicy": "Never"},
            (
                'spec.podReplacementPolicy: Unsupported value: "Never": supported '
                'values: "Failed", "TerminatingOrFailed"'
            ),
        ),
        (
            {**rule(onExitCodes=IN), "podReplacementPolicy": "TerminatingOrFailed"},
            (
                'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": '
                'supported values: "Failed"'
            ),
        ),
        (
            {"template": {"spec": {"restartPolicy": "Always"}}},
            (
                "spec.template.spec.restartPolicy: Required value: valid values: "
                '"OnFailure", "Never"'
            ),
        ),
        (
            {
                **rule(onExitCodes=IN),
                "template": {"spec": {"restartPolicy": "OnFailure"}},
            },
            (
                'spec.template.spec.restartPolicy: Invalid value: "OnFailure": '
                'only "Never" is supported when podFailurePolicy is specified'
            ),
        ),
        (
            rule(),
            (
                f"{RULE}: Invalid value: specifying one of OnExitCodes and "
                "OnPodConditions is required"
            ),
        ),
        (
            rule(onExitCodes=IN, onPodConditions=[{"type": "A"}]),
            (
                f"{RULE}: Invalid value: specifying both OnExitCodes and "
                "OnPodConditions is not supported"
            ),
        ),
        (
            rule(action="FailIndex", onExitCodes=IN),
            (
                f'{RULE}.action: Invalid value: "FailIndex": requires the '
                "backoffLimitPerIndex to be set"
            ),
        ),
        (
            rule(action="", onExitCodes=IN),
            (
                f'{RULE}.action: Required value: valid values: ["Count" "FailIndex" '
                '"FailJob" "Ignore"]'
            ),
        ),
        (
            rule(onExitCodes={**IN, "containerName": "x"}),
            (
                f'{RULE}.onExitCodes.containerName: Invalid value: "x": must be one '
                "of the container or initContainer names in the pod template"
            ),
        ),
        (
            rule(onExitCodes={"operator": "In", "values": [0]}),
            (
                f"{RULE}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for "
                "the In operator"
            ),
        ),
        (
            rule(onExitCodes={"operator": "NotIn", "values": [2, 2]}),
            f"{RULE}.onExitCodes.values[1]: Duplicate value: 2",
        ),
        (
            rule(onExitCodes={"operator": "NotIn", "values": [2, 1]}),
            f"{RULE}.onExitCodes.values: Invalid value: [2,1]: must be ordered",
        ),
        (
            rule(onPodConditions=[{"type": "A", "status": "Odd"}]),
            (
                f'{RULE}.onPodConditions[0].status: Unsupported value: "Odd": '
                'supported values: "False", "True", "Unknown"'
            ),
        ),
        (
            {"successPolicy": {"rules": [{"succeededCount": 1}]}},
            "spec.successPolicy: requires indexed completion mode",
        ),
        (
            {**INDEXED, "successPolicy": {"rules": [{}]}},
            (
                "spec.successPolicy.rules[0]: Required value: at least one of "
                "succeededCount or succeededIndexes must be specified"
            ),
        ),
        (
            {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "1-9"}]}},
            (
                "spec.successPolicy.rules[0].succeededIndexes: Invalid value: "
                '"1-9": error parsing succeededIndexes: too large index: "9"'
            ),
        ),
        (
            {
                **INDEXED,
                "successPolicy": {
                    "rules": [{"succeededIndexes": "0,2", "succeededCount": 3}]
                },
            },
            (
                "spec.successPolicy.rules[0].succeededCount: Invalid value: 3: must be "
                "less than or equal to 2 (the number of indexes in the specified "
                "succeededIndexes field)"
            ),
        ),
        (
            {"selector": {"matchLabels": {"a": "b"}}},
            "spec.selector: `selector` not auto-generated",
        ),
        (
            {"manualSelector": True},
            "spec.selector: Required value",
        ),
    ],
)
async def test_a_wrong_spec_is_refused(
    cluster: Cluster, spec: JSON, expected: str
) -> None:
    """With upstream's message."""
    with pytest.raises(Refusal) as caught:
        create(cluster, "Job", {"spec": spec})
    expected = expected.replace("NOT_NEGATIVE", "must be greater than or equal to 0")
    assert expected in causes(caught.value)


async def test_the_labels_of_a_job_are_not_to_be_forged(cluster: Cluster) -> None:
    """Each label that the server generates must have the server's value."""
    labels = {"job-name": "other", "batch.kubernetes.io/job-name": "other"}
    change = {"spec": {"template": {"metadata": {"labels": labels}}}}
    with pytest.raises(Refusal) as caught:
        create(cluster, "Job", change)
    assert causes(caught.value) == ["spec.template.metadata.labels: must be 'a'"] * 2


async def test_an_indexed_jobs_host_names_must_be_valid(cluster: Cluster) -> None:
    """With the highest index."""
    name = "a" * 62
    change = {"metadata": {"name": name}, "spec": INDEXED}
    with pytest.raises(Refusal) as caught:
        create(cluster, "Job", change)
    assert causes(caught.value) == [
        (
            f'metadata.name: Invalid value: "{name}": will not able to create pod with '
            f"invalid DNS label: {name}-3"
        )
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"completions": 3}, {"completions": 4}, "completions"),
        ({}, {"completionMode": "Indexed"}, "completionMode"),
        ({}, {"managedBy": "example.com/me"}, "managedBy"),
        ({}, {"template": {"metadata": {"labels": {"x": "y"}}}}, "template"),
        ({}, {"template": {"spec": {"nodeSelector": {"x": "y"}}}}, "template"),
        (
            {"suspend": True},
            {"template": {"spec": {"priorityClassName": "x"}}},
            "template",
        ),
        (INDEXED, {"backoffLimitPerIndex": 2}, "backoffLimitPerIndex"),
        (rule(onExitCodes=IN), {"podFailurePolicy": None}, "podFailurePolicy"),
    ],
)
async def test_most_of_the_spec_is_immutable(
    cluster: Cluster, before: JSON, after: JSON, expected: str
) -> None:
    """As upstream says of the first wrong field."""
    job = create(cluster, "Job", {"spec": before})
    with pytest.raises(Refusal) as caught:
        update(cluster, job, {"spec": after})
    found = [each for each in causes(caught.value) if "immutable" in each]
    assert len(found) == 1
    assert found[0].startswith(f"spec.{expected}: ")
    assert found[0].endswith("field is immutable")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"parallelism": 3}),
        ({}, {"suspend": True, "ttlSecondsAfterFinished": 3, "backoffLimit": 1}),
        ({**INDEXED, "parallelism": 4}, {"completions": 5, "parallelism": 5}),
        (
            {"suspend": True},
            {
                "suspend": False,
                "template": {
                    "metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}},
                    "spec": {
                        "nodeSelector": {"x": "y"},
                        "schedulingGates": [{"name": "x.example.com/y"}],
                        "tolerations": [{"key": "x", "operator": "Exists"}],
                        "affinity": {"nodeAffinity": {}},
                    },
                },
            },
        ),
    ],
)
async def test_the_rest_of_the_spec_can_be_changed(
    cluster: Cluster, before: JSON, after: JSON
) -> None:
    """A change is a new generation."""
    job = create(cluster, "Job", {"spec": before})
    assert job["metadata"]["generation"] == 1
    changed = update(cluster, job, {"spec": after})
    assert changed["metadata"]["generation"] == 2


async def test_the_resources_of_a_stopped_job_can_be_changed(cluster: Cluster) -> None:
    """If it is suspended, has no active pods, and shows that it has stopped."""
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


async def test_elastic_jobs_change_completions_with_parallelism(
    cluster: Cluster,
) -> None:
    """Not alone."""
    job = create(cluster, "Job", {"spec": {**INDEXED, "parallelism": 4}})
    with pytest.raises(Refusal) as caught:
        update(cluster, job, {"spec": {"completions": 5}})
    assert causes(caught.value) == [
        (
            "spec.completions: Invalid value: 5: can only be modified in tandem with "
            "spec.parallelism"
        )
    ]
