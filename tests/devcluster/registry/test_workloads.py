"""What may change in workloads and claims, and what the server fills in."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create, update
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

CLAIM: JSON = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def strategy(kind: str, **rolling: Any) -> JSON:
    more = {"rollingUpdate": rolling} if rolling else {}
    return {"updateStrategy": {"type": kind, **more}}


@rows("kind", "before", "after")
async def test_the_rest_can_be_changed(
    cluster: Cluster, kind: str, before: JSON, after: JSON
) -> None:
    obj = create(cluster, kind, before)
    changed = update(cluster, obj, {"spec": after})
    assert changed["metadata"].get("generation", 2) == 2
    assert changed["spec"] != obj["spec"]


async def test_a_schedule_with_a_zone_may_stay(cluster: Cluster) -> None:
    """Old servers allowed it; only a new one is refused."""
    cron_job = create(cluster, "CronJob")
    collection = cluster.server.storage.collection("cronjobs.batch")
    old = {**cron_job, "spec": {**cron_job["spec"], "schedule": "TZ=UTC * * * * *"}}
    collection.put(("default", "a"), old)
    changed = update(cluster, old, {"spec": {"schedule": "TZ=UTC 1 * * * *"}})
    assert changed["spec"]["schedule"] == "TZ=UTC 1 * * * *"
    with pytest.raises(Refusal, match="cannot use both timeZone field and TZ"):
        update(cluster, changed, {"spec": {"timeZone": "Etc/UTC"}})


async def test_a_bound_claim_can_be_made_larger(cluster: Cluster) -> None:
    create(cluster, "StorageClass", {"allowVolumeExpansion": True})
    claim = create(
        cluster, "PersistentVolumeClaim", {"spec": {"storageClassName": "a"}}
    )

    def sized(size: str) -> JSON:
        return {"spec": {"resources": {"requests": {"storage": size}}}}

    with pytest.raises(Refusal, match="spec is immutable after creation"):
        update(cluster, claim, sized("2Gi"))
    bound = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    claim = update(cluster, claim, {"status": bound}, "status")
    claim = update(cluster, claim, sized("2Gi"))
    assert claim["spec"]["resources"] == {"requests": {"storage": "2Gi"}}
    with pytest.raises(Refusal) as caught:
        update(cluster, claim, sized("1Gi"))
    assert causes(caught.value) == [
        (
            "spec.resources.requests.storage: Forbidden: field can not be less "
            "than status.capacity"
        )
    ]


async def test_an_empty_storage_class_is_kept(cluster: Cluster) -> None:
    """It means no class; an absent one means the default class."""
    claim = create(cluster, "PersistentVolumeClaim", {"spec": {"storageClassName": ""}})
    assert claim["spec"]["storageClassName"] == ""


async def test_max_unavailable_of_a_stateful_set_is_dropped(cluster: Cluster) -> None:
    rolling = strategy("RollingUpdate", partition=1, maxUnavailable=2)
    stateful_set = create(cluster, "StatefulSet", {"spec": rolling})
    expected = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    assert stateful_set["spec"]["updateStrategy"] == expected
    changed = update(cluster, stateful_set, {"spec": rolling})
    assert changed["metadata"]["generation"] == 1


async def test_max_unavailable_is_stored_with_its_feature_gate() -> None:
    gates = FeatureGates({"MaxUnavailableStatefulSet": True})
    cluster = Cluster(features=gates)
    stateful_set = create(cluster, "StatefulSet")
    rolling = stateful_set["spec"]["updateStrategy"]["rollingUpdate"]
    assert rolling == {"partition": 0, "maxUnavailable": 1}
    more = strategy("RollingUpdate", maxUnavailable="50%")
    changed = update(cluster, stateful_set, {"spec": more})
    rolling = changed["spec"]["updateStrategy"]["rollingUpdate"]
    assert rolling == {"partition": 0, "maxUnavailable": "50%"}
    for wrong, why in ((0, "cannot be 0"), ("101%", "must not be greater than 100%")):
        more = strategy("RollingUpdate", maxUnavailable=wrong)
        with pytest.raises(Refusal, match=why):
            update(cluster, changed, {"spec": more})


async def test_a_daemon_sets_template_has_a_generation(cluster: Cluster) -> None:
    """In an annotation that users cannot change."""
    name = "deprecated.daemonset.template.generation"
    daemon_set = create(cluster, "DaemonSet")
    assert daemon_set["metadata"]["annotations"] == {name: "1"}
    change = {"metadata": {"annotations": {name: "7", "x": "y"}}}
    daemon_set = update(cluster, daemon_set, change)
    assert daemon_set["metadata"]["annotations"] == {name: "1", "x": "y"}
    labels = {"template": {"metadata": {"labels": {"x": "y"}}}}
    daemon_set = update(cluster, daemon_set, {"spec": labels})
    assert daemon_set["metadata"]["annotations"] == {name: "2", "x": "y"}
    daemon_set = update(cluster, daemon_set, {"spec": {"minReadySeconds": 1}})
    removed = {"metadata": {"annotations": None}, "status": {"numberReady": 1}}
    daemon_set = update(cluster, daemon_set, removed, "status")
    assert daemon_set["metadata"]["annotations"] == {name: "2"}
    assert daemon_set["metadata"]["generation"] == 3


async def test_the_claims_of_a_stateful_set_have_defaults(cluster: Cluster) -> None:
    spec = {"volumeClaimTemplates": [CLAIM]}
    stateful_set = create(cluster, "StatefulSet", {"spec": spec})
    assert stateful_set["spec"]["volumeClaimTemplates"] == [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {**CLAIM["spec"], "volumeMode": "Filesystem"},
            "status": {"phase": "Pending"},
        }
    ]
