"""The kinds that an API server has only while feature gates are enabled."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.devcluster.registry.requests import create, update

pytestmark = pytest.mark.looptime

BASIC: JSON = {"schedulingPolicy": {"basic": {}}}
GROUPS_OF_PODS = FeatureGates({"GenericWorkload": True})


async def test_a_workload_may_name_its_object_later(cluster: Cluster) -> None:
    """Nothing else of it changes."""
    workload = create(cluster, "Workload")
    (template,) = workload["spec"]["podGroupTemplates"]
    assert template == {"name": "a", **BASIC, "schedulingConstraints": None}
    reference = {"apiGroup": "batch", "kind": "Job", "name": "j"}
    named = update(cluster, workload, {"spec": {"controllerRef": reference}})
    assert named["spec"]["controllerRef"] == reference


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
    group = create(cluster, "PodGroup")
    assert group["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
    freed = update(cluster, group, {"metadata": {"finalizers": None}})
    assert "finalizers" not in freed["metadata"]
