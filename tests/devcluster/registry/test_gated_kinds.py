"""The kinds that an API server has only while feature gates are enabled."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create, update

pytestmark = pytest.mark.looptime

SAME_END = "Both success and failed conditions cannot be true at the same time"
ONE_POLICY = "must specify one of: `basic`, `gang`"
ONLY_ONE_POLICY = "must specify exactly one of: `basic`, `gang`"
FIRST = "spec.podGroupTemplates[0].schedulingPolicy"
BASIC: JSON = {"schedulingPolicy": {"basic": {}}}
GROUPS_OF_PODS = FeatureGates({"GenericWorkload": True})


def condition(name: str, status: str = "True") -> JSON:
    return {
        "type": name,
        "status": status,
        "reason": "Because",
        "message": "it is so",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def server(name: str, version: str) -> JSON:
    return {
        "apiServerID": name,
        "encodingVersion": version,
        "decodableVersions": [version],
    }


def refused(cluster: Cluster, kind: str, spec: JSON) -> list[str]:
    with pytest.raises(Refusal) as raised:
        create(cluster, kind, {"spec": spec})
    return causes(raised.value)


def refused_status(cluster: Cluster, obj: JSON, status: JSON) -> list[str]:
    with pytest.raises(Refusal) as raised:
        update(cluster, obj, {"status": status}, "status")
    return causes(raised.value)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"storageVersions": [server("a", "v1")]}, "is v1"),
        (
            {
                "commonEncodingVersion": "v1",
                "storageVersions": [server("a", "v1"), server("b", "v2")],
            },
            "must be unset",
        ),
        (
            {
                "commonEncodingVersion": "v1",
                "storageVersions": [{**server("a", "v1"), "decodableVersions": ["v2"]}],
            },
            "decodableVersions must include encodingVersion v1",
        ),
        (
            {
                "commonEncodingVersion": "v1",
                "storageVersions": [server("a", "v1"), server("a", "v1")],
            },
            "Duplicate value",
        ),
    ],
)
async def test_a_storage_version_has_the_version_of_all_its_servers(
    cluster: Cluster, status: JSON, expected: str
) -> None:
    """None while they differ."""
    version = create(cluster, "StorageVersion")
    (cause,) = refused_status(cluster, version, status)
    assert expected in cause


async def test_a_migration_ends_once(cluster: Cluster) -> None:
    """And its resource version stays."""
    migration = create(cluster, "StorageVersionMigration")
    both = [condition("Succeeded"), condition("Failed")]
    (cause,) = refused_status(cluster, migration, {"conditions": both})
    assert cause.endswith(SAME_END)
    status = {"conditions": [condition("Failed")], "resourceVersion": "10"}
    failed = update(cluster, migration, {"status": status}, "status")
    assert "generation" in failed["metadata"]
    undone = {"conditions": [condition("Failed", "False")]}
    assert "once it is true" in refused_status(cluster, failed, undone)[0]
    (cause,) = refused_status(cluster, failed, {"resourceVersion": "11"})
    assert "resourceVersion cannot be updated" in cause


async def test_a_migration_is_of_one_resource(cluster: Cluster) -> None:
    """It needs one, and it keeps it."""
    missing = refused(cluster, "StorageVersionMigration", {"resource": None})
    expected = "spec.resource.resource: Required value: resource is required"
    assert missing == [expected]
    migration = create(cluster, "StorageVersionMigration")
    with pytest.raises(Refusal, match="field is immutable"):
        update(cluster, migration, {"spec": {"resource": {"resource": "others"}}})


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"basic": None, "gang": None}, ONE_POLICY),
        ({"basic": {}, "gang": {"minCount": 1}}, ONLY_ONE_POLICY),
        ({"basic": None, "gang": {"minCount": 0}}, "must be greater than zero"),
    ],
)
async def test_a_group_of_pods_has_one_policy(
    cluster: Cluster, policy: JSON, expected: str
) -> None:
    """Of two."""
    (cause,) = refused(cluster, "PodGroup", {"schedulingPolicy": policy})
    assert expected in cause


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"podGroupTemplates": []},
            "spec.podGroupTemplates: Required value",
        ),
        (
            {"podGroupTemplates": [{"name": "a"}]},
            f"{FIRST}: Required value: {ONE_POLICY}",
        ),
        (
            {"podGroupTemplates": [{"name": "a", "schedulingPolicy": {"gang": {}}}]},
            f"{FIRST}.gang.minCount: Invalid value: 0: must be greater than zero",
        ),
        (
            {"podGroupTemplates": [{"name": "a", **BASIC}, {"name": "a", **BASIC}]},
            'spec.podGroupTemplates[1]: Duplicate value: {"name":"a"}',
        ),
        (
            {"podGroupTemplates": [{"name": str(n), **BASIC} for n in range(9)]},
            "spec.podGroupTemplates: Too many: 9: must have at most 8 items",
        ),
        (
            {"controllerRef": {"apiGroup": "batch", "kind": "Job", "name": ""}},
            "spec.controllerRef.name: Required value",
        ),
    ],
)
async def test_a_workload_has_templates_of_groups(
    cluster: Cluster, spec: JSON, expected: str
) -> None:
    """At most eight, each with a name and a policy of its own."""
    assert refused(cluster, "Workload", spec) == [expected]


async def test_a_workload_does_not_change(cluster: Cluster) -> None:
    """But it may say later which object it is about."""
    workload = create(cluster, "Workload")
    (template,) = workload["spec"]["podGroupTemplates"]
    assert template == {"name": "a", **BASIC, "schedulingConstraints": None}
    change = {"spec": {"podGroupTemplates": [{"name": "b", **BASIC}]}}
    with pytest.raises(Refusal, match="field is immutable"):
        update(cluster, workload, change)
    reference = {"apiGroup": "batch", "kind": "Job", "name": "j"}
    named = update(cluster, workload, {"spec": {"controllerRef": reference}})
    with pytest.raises(Refusal, match="field is immutable"):
        update(cluster, named, {"spec": {"controllerRef": {"name": "other"}}})


async def test_the_group_of_a_pod_needs_a_gate() -> None:
    """A server without the gate drops it, but not from pods that have it."""
    named = {"spec": {"schedulingGroup": {"podGroupName": "g"}}}
    without, with_gate = Cluster(), Cluster(features=GROUPS_OF_PODS)
    for cluster, kept in ((without, {}), (with_gate, named["spec"])):
        pod = create(cluster, "Pod", named)
        assert {key: pod["spec"].get(key) for key in kept} == kept
        assert ("schedulingGroup" in pod["spec"]) == bool(kept)
    stored = {**create(without, "Pod", {"metadata": {"name": "old"}})}
    stored["spec"] = {**stored["spec"], **named["spec"]}
    kind = without.server.catalogue.of("v1", "Pod")
    assert kind is not None
    without.server.objects.put(kind, ("default", "old"), stored)
    changed = update(without, stored, {"metadata": {"labels": {"a": "b"}}})
    assert changed["spec"]["schedulingGroup"] == named["spec"]["schedulingGroup"]


async def test_the_parallelism_of_a_job_in_a_gang_does_not_change() -> None:
    """If the template of the job names the group; other groups do not matter."""
    cluster = Cluster(features=GROUPS_OF_PODS)
    gang: JSON = {"schedulingPolicy": {"basic": None, "gang": {"minCount": 1}}}
    groups: dict[str, JSON] = {"gang": gang, "free": BASIC}
    jobs: dict[str, JSON] = {}
    for name, spec in groups.items():
        create(cluster, "PodGroup", {"metadata": {"name": name}, "spec": spec})
    for name in ("gang", "free", "missing"):
        template = {"spec": {"schedulingGroup": {"podGroupName": name}}}
        change = {"metadata": {"name": name}, "spec": {"template": template}}
        jobs[name] = create(cluster, "Job", change)
    with pytest.raises(Refusal, match='gang-scheduled PodGroup "gang"') as raised:
        update(cluster, jobs["gang"], {"spec": {"parallelism": 5}})
    assert raised.value.code == 403
    update(cluster, jobs["gang"], {"spec": {"suspend": True}})
    for name in ("free", "missing"):
        update(cluster, jobs[name], {"spec": {"parallelism": 5}})


async def test_a_group_of_pods_is_held_by_a_finalizer(cluster: Cluster) -> None:
    """From its creation on; its spec never changes."""
    group = create(cluster, "PodGroup")
    assert group["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
    with pytest.raises(Refusal, match="field is immutable"):
        update(cluster, group, {"spec": {"priority": 5}})
    freed = update(cluster, group, {"metadata": {"finalizers": None}})
    assert "finalizers" not in freed["metadata"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"driver": ""}, "spec.driver: Required value"),
        ({"poolName": "a//b"}, "spec.poolName: Invalid value"),
        ({"limit": 0}, "must be between 1 and 1000, inclusive"),
        ({"limit": 1001}, "must be between 1 and 1000, inclusive"),
    ],
)
async def test_a_question_about_pools_is_well_formed(
    cluster: Cluster, spec: JSON, expected: str
) -> None:
    """A driver, perhaps a pool, and a limit."""
    listed = refused(cluster, "ResourcePoolStatusRequest", spec)
    assert any(expected in each for each in listed)


async def test_a_question_about_pools_is_answered_once(cluster: Cluster) -> None:
    """Neither the question nor the answer changes."""
    request = create(cluster, "ResourcePoolStatusRequest")
    with pytest.raises(Refusal, match="field is immutable"):
        update(cluster, request, {"spec": {"driver": "other.example.com"}})
    answer = {"poolCount": 0, "conditions": [condition("Complete")]}
    answered = update(cluster, request, {"status": answer}, "status")
    (cause,) = refused_status(cluster, answered, {"poolCount": 1})
    assert "field is immutable" in cause
