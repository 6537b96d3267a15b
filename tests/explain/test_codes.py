"""Causes that no scenario of the page brings about, each from objects as given."""

from typing import Any

import pytest
import yaml

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
from tests.explain.given import Given
from tests.explain.test_objects import NOW, add_node, pod, view_of

pytestmark = pytest.mark.looptime

TEMPLATE = {
    "metadata": {"labels": {"app": "db"}},
    "spec": {"containers": [{"name": "app", "image": "a"}]},
}
ON_DELETE = "OnDelete waits until somebody deletes them"


async def found(
    cluster: Cluster, resource: AnyResource, server: Given | None = None, **parts: Any
) -> list[tuple[str, State, str]]:
    """Return code, state and sentence of each cause of an object."""
    metadata = {"namespace": "default", "name": "db", "uid": "u"}
    explanation = await explain_item(
        view_of(cluster, server), Item(resource, {"metadata": metadata, **parts})
    )
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
    assert await found(cluster, STATEFUL_SETS, spec=spec, status=status) == [cause]


CASES = yaml.safe_load("""
two autoscalers of one workload are named:
  kind: StatefulSet
  object: {spec: {replicas: 0, selector: {matchLabels: {app: db}}, template: {}}}
  horizontalpodautoscalers:
    - &scaler
      metadata: {name: day, namespace: default}
      spec:
        maxReplicas: 3
        scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
    - {<<: *scaler, metadata: {name: night, namespace: default}}
  first: [TwoAutoscalers, stuck, "several autoscalers set its replicas: day, night"]

a claim whose volume is gone has lost its data:
  kind: PersistentVolumeClaim
  object: {spec: {volumeName: disk}, status: {phase: Lost}}
  only: [VolumeLost, stuck, "the volume disk, with the data of the claim, is gone"]

a claim cannot have a volume of another claim:
  kind: PersistentVolumeClaim
  object:
    spec:
      volumeName: disk
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
      storageClassName: ''
    status: {phase: Pending}
  persistentvolumes:
    - metadata: {name: disk}
      spec:
        capacity: {storage: 1Gi}
        accessModes: [ReadWriteOnce]
        hostPath: {path: /d}
        claimRef: {namespace: shop, name: other, uid: o}
  only:
    - VolumeMismatch
    - stuck
    - "the claim names the volume disk, which it cannot have:
      it is bound to the claim shop/other"

a job of another controller is said so:
  kind: Job
  object: {spec: {managedBy: example.com/queue, template: {}}}
  only:
    - ManagedByOther
    - progressing
    - the job is managed by example.com/queue, not by the job controller

an autoscaler at its limit is said so:
  kind: HorizontalPodAutoscaler
  object:
    spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: X, name: db}}
    status:
      conditions: [{type: ScalingLimited, status: 'True', reason: TooManyReplicas}]
  last: [MaxReplicas, stuck, "the metrics ask for more pods than maxReplicas, 3"]

a budget whose pods cannot be counted says why:
  kind: PodDisruptionBudget
  object:
    spec: {maxUnavailable: 1, selector: {matchLabels: {app: db}}}
    status:
      conditions:
        - type: DisruptionAllowed
          status: 'False'
          reason: SyncFailed
          message: pods without a controller.
  only:
    - BudgetNotCounted
    - stuck
    - "no pod may be evicted, because the expected pods cannot be counted:
      pods without a controller"

# Somebody may have switched the endpoint slice controller off.
ready pods that no slice has are not published:
  kind: Service
  object: {spec: {selector: {app: db}}}
  nodes:
    - {metadata: {name: n}, status: {conditions: [{type: Ready, status: 'True'}]}}
  pods:
    - metadata: {name: db-0, namespace: default, labels: {app: db}}
      spec: {nodeName: n, containers: []}
      status:
        phase: Running
        podIP: 10.0.0.1
        podIPs: [{ip: 10.0.0.1}]
        conditions:
          - {type: Ready, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}
  only: [NotPublished, progressing, no endpoint slice has its 1 ready pod yet]

# A new pod must not start with data that go with their owner.
a set waits for the claim of an earlier set to go:
  kind: StatefulSet
  object:
    spec:
      replicas: 1
      selector: {matchLabels: {app: db}}
      template: {metadata: {labels: {app: db}}, spec: {containers: [{name: app}]}}
      volumeClaimTemplates: [{metadata: {name: data}, spec: {}}]
    status: {replicas: 0, currentRevision: db-1, updateRevision: db-1}
  persistentvolumeclaims:
    - metadata:
        name: data-db-0
        namespace: default
        ownerReferences:
          - {apiVersion: apps/v1, kind: StatefulSet, name: db, uid: earlier}
  only:
    - WaitsForClaim
    - stuck
    - "1 of 1 pods do not exist yet, because the set waits for PersistentVolumeClaim
      data-db-0: it waits for this claim to be deleted with its owner"

a deployment whose replica set is refused says why: &refused
  kind: Deployment
  object:
    spec: &spec
      replicas: 1
      selector: {matchLabels: {app: db}}
      template: {metadata: {labels: {app: db}}, spec: {containers: [{name: app}]}}
    status:
      conditions:
        - &condition
          type: Progressing
          status: 'False'
          reason: ReplicaSetCreateError
          message: Admission did something.
  only: [ReplicaSetRefused, stuck, Admission did something]

a deployment whose replica set is changed says why:
  <<: *refused
  object:
    spec: *spec
    status: {conditions: [{<<: *condition, reason: ReplicaSetMutated}]}
  only: [ReplicaSetMutated, stuck, Admission did something]
""")
KINDS: dict[str, AnyResource] = {
    each.kind: each
    for each in (
        *(BUDGETS, CLAIMS, DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, JOBS),
        *(SERVICES, STATEFUL_SETS),
    )
}


WHICH = ("only", "first", "last")


@pytest.mark.parametrize("name", CASES)
async def test_a_state_has_a_code_and_a_sentence(cluster: Cluster, name: str) -> None:
    """The only cause, the first or the last one is compared."""
    case = dict(CASES[name])
    resource, parts = KINDS[case.pop("kind")], case.pop("object")
    expected = {
        each: case.pop(each) for each in ("only", "first", "last") if each in case
    }
    causes = await found(cluster, resource, Given(**case), **parts)
    rows = [[code, state.value.lower(), what] for code, state, what in causes]
    ((which, row),) = expected.items()
    assert rows[-1 if which == "last" else 0] == row
    assert which != "only" or len(rows) == 1


async def test_a_kubelet_that_does_not_end_a_pod_is_named(cluster: Cluster) -> None:
    """Its grace period has ended a day ago."""
    add_node(cluster)
    times = {
        "deletionTimestamp": "2025-12-31T00:00:00Z",
        "deletionGracePeriodSeconds": 30,
    }
    body = {"metadata": {"namespace": "default", "name": "db", **times}, **pod()}
    said = "the kubelet of node-0 has not ended the pod after its grace period"
    causes = (await explain_item(view_of(cluster), Item(PODS, body))).causes
    assert [(each.code, each.state, each.what) for each in causes] == [
        ("KubeletDoesNotEnd", State.STUCK, said)
    ]
