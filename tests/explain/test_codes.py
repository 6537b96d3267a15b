"""Causes that no scenario of the page brings about, each from objects as given."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, STATEFUL_SETS
from controller_manager.api.autoscaling.v2 import HORIZONTAL_POD_AUTOSCALERS
from controller_manager.api.batch.v1 import JOBS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.services import SERVICES
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import AnyResource
from controller_manager.api.policy.v1 import BUDGETS
from controller_manager.explain.cause import Item, State
from controller_manager.explain.explainer import explain_item
from tests.clusters import Cluster
from tests.explain.test_objects import NOW, add_node, pod, view_of

pytestmark = pytest.mark.looptime

TEMPLATE = {
    "metadata": {"labels": {"app": "db"}},
    "spec": {"containers": [{"name": "app", "image": "a"}]},
}
ON_DELETE = "OnDelete waits until somebody deletes them"
RESOURCES = {"requests": {"storage": "1Gi"}}


async def found(
    cluster: Cluster, resource: AnyResource, **parts: Any
) -> list[tuple[str, State, str]]:
    """Return code, state and sentence of each cause of an object."""
    metadata = {"namespace": "default", "name": "db", "uid": "u", **parts}
    body = {"metadata": metadata, **metadata.pop("body")}
    explanation = await explain_item(view_of(cluster), Item(resource, body))
    return [(each.code, each.state, each.what) for each in explanation.causes]


@pytest.mark.parametrize("current", ["db-1", "db-2"])
@pytest.mark.parametrize(
    ("strategy", "cause"),
    [
        (
            {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
            (
                "Partition",
                State.HEALTHY,
                "1 pod of the old template stay: the partition is 1",
            ),
        ),
        (
            {"type": "OnDelete"},
            (
                "OnDelete",
                State.STUCK,
                f"1 pod of the old template: the strategy {ON_DELETE}",
            ),
        ),
    ],
)
async def test_a_strategy_keeps_pods_of_the_old_template(
    cluster: Cluster, current: str, strategy: JSON, cause: tuple[str, State, str]
) -> None:
    """Also if there is one revision: the old pod has the claims of an earlier set.

    With a partition the user wanted that, so the set is healthy.
    """
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
    add_node(cluster)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u"}
    for ordinal, revision in enumerate((current, "db-2")):
        labels = {
            "app": "db",
            "controller-revision-hash": revision,
            "statefulset.kubernetes.io/pod-name": f"db-{ordinal}",
        }
        cluster.add(
            "Pod",
            f"db-{ordinal}",
            metadata={
                "name": f"db-{ordinal}",
                "labels": labels,
                "ownerReferences": [{**owner, "controller": True}],
            },
            **pod(conditions=[ready]),
        )
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "db"}},
        "template": TEMPLATE,
        "updateStrategy": strategy,
    }
    status = {
        "replicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "updatedReplicas": 1,
        "currentRevision": current,
        "updateRevision": "db-2",
    }
    assert await found(
        cluster, STATEFUL_SETS, body={"spec": spec, "status": status}
    ) == [cause]


async def test_two_autoscalers_of_one_workload_are_named(cluster: Cluster) -> None:
    for name in ("day", "night"):
        target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
        cluster.add(
            "HorizontalPodAutoscaler",
            name,
            "autoscaling/v2",
            spec={"scaleTargetRef": target, "maxReplicas": 3},
        )
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "db"}}}
    causes = await found(
        cluster, STATEFUL_SETS, body={"spec": {**spec, "template": TEMPLATE}}
    )
    assert causes[0] == (
        "TwoAutoscalers",
        State.STUCK,
        "several autoscalers set its replicas: day, night",
    )


async def test_a_claim_whose_volume_is_gone_has_lost_its_data(cluster: Cluster) -> None:
    spec = {"volumeName": "disk", "resources": RESOURCES}
    body = {"spec": spec, "status": {"phase": "Lost"}}
    assert await found(cluster, CLAIMS, body=body) == [
        (
            "VolumeLost",
            State.STUCK,
            "the volume disk, with the data of the claim, is gone",
        )
    ]


async def test_a_claim_cannot_have_a_volume_of_another_claim(cluster: Cluster) -> None:
    cluster.add(
        "PersistentVolume",
        "disk",
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/d"},
            "claimRef": {"namespace": "shop", "name": "other", "uid": "o"},
        },
    )
    spec = {
        "volumeName": "disk",
        "accessModes": ["ReadWriteOnce"],
        "resources": RESOURCES,
        "storageClassName": "",
    }
    body = {"spec": spec, "status": {"phase": "Pending"}}
    assert await found(cluster, CLAIMS, body=body) == [
        (
            "VolumeMismatch",
            State.STUCK,
            (
                "the claim names the volume disk, which it cannot have: it is bound "
                "to the claim shop/other"
            ),
        )
    ]


async def test_a_job_of_another_controller_is_said_so(cluster: Cluster) -> None:
    spec = {"managedBy": "example.com/queue", "template": TEMPLATE}
    assert await found(cluster, JOBS, body={"spec": spec}) == [
        (
            "ManagedByOther",
            State.PROGRESSING,
            "the job is managed by example.com/queue, not by the job controller",
        )
    ]


async def test_an_autoscaler_at_its_limit_is_said_so(cluster: Cluster) -> None:
    target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
    limited = {"type": "ScalingLimited", "status": "True", "reason": "TooManyReplicas"}
    body = {
        "spec": {"scaleTargetRef": target, "maxReplicas": 3},
        "status": {"conditions": [limited]},
    }
    codes = await found(cluster, HORIZONTAL_POD_AUTOSCALERS, body=body)
    sentence = "the metrics ask for more pods than maxReplicas, 3"
    assert ("MaxReplicas", sentence) in [(each[0], each[2]) for each in codes]


async def test_a_kubelet_that_does_not_end_a_pod_is_named(cluster: Cluster) -> None:
    """Its grace period has ended a day ago."""
    add_node(cluster)
    causes = await found(
        cluster,
        PODS,
        deletionTimestamp="2025-12-31T00:00:00Z",
        deletionGracePeriodSeconds=30,
        body=pod(),
    )
    assert causes == [
        (
            "KubeletDoesNotEnd",
            State.STUCK,
            "the kubelet of node-0 has not ended the pod after its grace period",
        )
    ]


async def test_a_budget_whose_pods_cannot_be_counted_says_why(cluster: Cluster) -> None:
    failed = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "SyncFailed",
        "message": "pods without a controller.",
        "lastTransitionTime": NOW,
    }
    body = {
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "db"}}},
        "status": {"conditions": [failed]},
    }
    assert await found(cluster, BUDGETS, body=body) == [
        (
            "BudgetNotCounted",
            State.STUCK,
            (
                "no pod may be evicted, because the expected pods cannot be counted: "
                "pods without a controller"
            ),
        )
    ]


async def test_ready_pods_that_no_slice_has_are_not_published(cluster: Cluster) -> None:
    """Somebody may have switched the endpoint slice controller off."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
    add_node(cluster)
    metadata = {"name": "db-0", "labels": {"app": "db"}}
    cluster.add(
        "Pod",
        "db-0",
        metadata=metadata,
        **pod(conditions=[ready], podIP="10.0.0.1", podIPs=[{"ip": "10.0.0.1"}]),
    )
    assert await found(
        cluster, SERVICES, body={"spec": {"selector": {"app": "db"}}}
    ) == [
        (
            "NotPublished",
            State.PROGRESSING,
            "no endpoint slice has its 1 ready pod yet",
        )
    ]


async def test_a_set_waits_for_the_claim_of_an_earlier_set_to_go(
    cluster: Cluster,
) -> None:
    """A new pod must not start with data that go with their owner."""
    name = "data-db-0"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": RESOURCES}
    earlier = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
    metadata = {"name": name, "ownerReferences": [{**earlier, "uid": "earlier"}]}
    cluster.add("PersistentVolumeClaim", name, metadata=metadata, spec=spec)
    body = {
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "db"}},
            "template": TEMPLATE,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}],
        },
        "status": {"replicas": 0, "currentRevision": "db-1", "updateRevision": "db-1"},
    }
    said = (
        "1 of 1 pods do not exist yet, because the set waits for PersistentVolumeClaim "
        "data-db-0: it waits for this claim to be deleted with its owner"
    )
    causes = await found(cluster, STATEFUL_SETS, body=body)
    assert causes == [("WaitsForClaim", State.STUCK, said)]


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("ReplicaSetCreateError", "ReplicaSetRefused"),
        ("ReplicaSetMutated", "ReplicaSetMutated"),
    ],
)
async def test_a_deployment_that_gets_no_new_replica_set_says_why(
    cluster: Cluster, reason: str, code: str
) -> None:
    condition = {
        "type": "Progressing",
        "status": "False",
        "reason": reason,
        "message": "Admission did something.",
    }
    selector = {"matchLabels": {"app": "db"}}
    body = {
        "spec": {"selector": selector, "template": TEMPLATE, "replicas": 1},
        "status": {"conditions": [condition]},
    }
    assert await found(cluster, DEPLOYMENTS, body=body) == [
        (code, State.STUCK, "Admission did something")
    ]
