"""From objects that were not read, nothing is concluded."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import (
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICASETS,
    STATEFUL_SETS,
)
from controller_manager.api.batch.v1 import JOBS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.services import SERVICES
from controller_manager.api.meta import AnyResource
from controller_manager.api.policy.v1 import BUDGETS
from controller_manager.explain.cause import Cause, State
from tests.clusters import Cluster
from tests.explain.given import NOW, Given, explained, named

pytestmark = pytest.mark.looptime

LABELS = {"app": "web"}
SPEC = {
    "selector": {"matchLabels": LABELS},
    "template": {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [{"name": "app", "image": "a"}]},
    },
}
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}
TEMPLATES = [{"metadata": {"name": "data"}, "spec": CLAIM}]
SLOW = {
    "metadata": {"name": "fast"},
    "provisioner": "x.io/y",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def body(spec: dict[str, Any], **status: Any) -> dict[str, Any]:
    observed = {"observedGeneration": 1, **status}
    return {
        "metadata": named("web", generation=1),
        "spec": spec,
        "status": observed,
    }


def shown(cause: Cause) -> tuple[str, State, str]:
    return cause.code, cause.state, cause.what


HEALTHY: tuple[Any, ...] = ()


@pytest.mark.parametrize(
    ("resource", "given", "refused", "expected"),
    [
        (REPLICASETS, body({**SPEC, "replicas": 2}, replicas=2), "pods", HEALTHY),
        (
            REPLICASETS,
            body({**SPEC, "replicas": 2}, replicas=1),
            "pods",
            ("PodsMissing", State.PROGRESSING, "a pod does not exist yet"),
        ),
        (
            DEPLOYMENTS,
            body({**SPEC, "replicas": 2}, availableReplicas=1, updatedReplicas=2),
            "replicasets",
            (
                "RolloutWaits",
                State.PROGRESSING,
                "1 of 2 pods are available, and 2 have the current template",
            ),
        ),
        (
            DAEMON_SETS,
            body(SPEC, desiredNumberScheduled=9, numberUnavailable=2),
            "nodes",
            (
                "NodesWithoutPod",
                State.PROGRESSING,
                "2 of 9 nodes have no available pod",
            ),
        ),
        (
            DAEMON_SETS,
            body(SPEC, desiredNumberScheduled=9, updatedNumberScheduled=9),
            "pods",
            HEALTHY,
        ),
        (
            STATEFUL_SETS,
            body({**SPEC, "replicas": 2}, replicas=2, availableReplicas=2),
            "pods",
            HEALTHY,
        ),
        (
            STATEFUL_SETS,
            body(
                {**SPEC, "replicas": 2, "volumeClaimTemplates": TEMPLATES},
                replicas=2,
                availableReplicas=2,
            ),
            "persistentvolumeclaims",
            HEALTHY,
        ),
        (
            JOBS,
            body(SPEC, active=3, succeeded=4, startTime=NOW),
            "pods",
            (
                "JobRuns",
                State.PROGRESSING,
                "4 pods have succeeded, 0 have failed, 3 are active",
            ),
        ),
        (
            BUDGETS,
            body(
                {"selector": {"matchLabels": LABELS}, "minAvailable": 2},
                expectedPods=3,
                desiredHealthy=2,
                currentHealthy=3,
                disruptionsAllowed=1,
            ),
            "pods",
            HEALTHY,
        ),
        (
            BUDGETS,
            body(
                {"selector": {"matchLabels": LABELS}, "minAvailable": 3},
                expectedPods=3,
                desiredHealthy=3,
                currentHealthy=3,
            ),
            "pods",
            (
                "BudgetNeverAllows",
                State.STUCK,
                (
                    "no pod may be evicted: 3 of 3 pods are healthy, and 3 must be "
                    "(minAvailable: 3); it covers pods that were not read"
                ),
            ),
        ),
        (SERVICES, body({"selector": LABELS}), "pods", HEALTHY),
        (SERVICES, body({"ports": [{"port": 80}]}), "endpointslices", HEALTHY),
        (
            CLAIMS,
            body({**CLAIM, "volumeName": "disk"}, phase="Pending"),
            "persistentvolumes",
            ("ClaimPending", State.STUCK, "the claim waits for a volume"),
        ),
        (
            CLAIMS,
            body({**CLAIM, "storageClassName": ""}, phase="Pending"),
            "persistentvolumes",
            ("ClaimPending", State.STUCK, "the claim waits for a volume"),
        ),
        (
            CLAIMS,
            body({**CLAIM, "storageClassName": "fast"}, phase="Pending"),
            "pods",
            (
                "WaitForFirstConsumer",
                State.STUCK,
                "the storage class fast waits for a pod that uses it",
            ),
        ),
    ],
)
async def test_no_cause_follows_from_objects_that_may_not_be_read(
    cluster: Cluster,
    resource: AnyResource,
    given: dict[str, Any],
    refused: str,
    expected: Any,
) -> None:
    """The status says how many there are, and the answer names the unread ones."""
    server = Given(refused=(refused,), storageclasses=[SLOW])
    found = await explained(cluster, resource, given, server)
    assert tuple(map(shown, found.causes)) == ((expected,) if expected else ())
    assert [each for each in found.unread if each.startswith(refused)] != []


async def test_pods_beyond_the_end_of_a_list_are_not_missing(cluster: Cluster) -> None:
    """A list has 500 objects at most, and a replica set may have more pods."""
    owner = {"uid": "uid-of-web", "controller": True}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
    pods = [
        {
            "metadata": named(f"web-{number}", ownerReferences=[owner], labels=LABELS),
            "status": {"phase": "Running", "conditions": [ready]},
        }
        for number in range(7)
    ]
    web = body({**SPEC, "replicas": 7}, replicas=7)
    server = Given(pods=pods, page=5)
    found = await explained(cluster, REPLICASETS, web, server)
    assert (found.causes, found.unread) == (
        (),
        ("pods in shop: only the first 500 were read",),
    )
