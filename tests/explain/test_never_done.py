"""States that seem healthy or in progress, and stay as they are."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS, STATEFUL_SETS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.services import SERVICES
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.explain.cause import State
from tests.clusters import Cluster
from tests.explain.given import LONG_AGO, Chain, Given, before, chains, explained, named

pytestmark = pytest.mark.looptime

LABELS = {"app": "web"}
SPEC = {
    "replicas": 1,
    "selector": {"matchLabels": LABELS},
    "template": {"metadata": {"labels": LABELS}, "spec": {}},
}
MISSING = {
    "metadata": named("web", generation=1),
    "spec": SPEC,
    "status": {"observedGeneration": 1},
}


def condition(name: str, at: str = LONG_AGO, **more: str) -> JSON:
    return {"type": name, "status": "True", "lastTransitionTime": at, **more}


def lease(renewed: str) -> JSON:
    return {
        "metadata": named("kube-controller-manager"),
        "spec": {
            "holderIdentity": "a",
            "renewTime": renewed,
            "leaseDurationSeconds": 15,
        },
    }


@pytest.mark.parametrize(
    ("leases", "expected"),
    [
        ([], ("PodsMissing", State.PROGRESSING, [])),
        ([lease("2026-01-01T00:00:00Z")], ("PodsMissing", State.PROGRESSING, [])),
        (
            [lease(before(5))],
            ("PodsMissing", State.STUCK, [("ControllerAbsent", State.STUCK, [])]),
        ),
    ],
)
async def test_a_pod_is_not_made_by_a_manager_that_does_not_run(
    cluster: Cluster, leases: list[JSON], expected: Chain
) -> None:
    """It had seen the newest spec before."""
    found = await explained(cluster, REPLICASETS, MISSING, Given(leases=leases))
    assert chains(found.causes) == [expected]


def service(minutes: int, **more: Any) -> JSON:
    metadata = {**named("web"), "creationTimestamp": before(minutes)}
    spec = {"type": "LoadBalancer", "selector": LABELS}
    return {"metadata": metadata, "spec": spec, **more}


def ready_pod(minutes: int, **more: Any) -> JSON:
    return {
        "metadata": named("web", labels=LABELS),
        "spec": {"nodeName": "node-0"},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "podIPs": [{"ip": "10.0.0.1"}],
            "conditions": [condition("Ready", before(minutes))],
            **more,
        },
    }


SLICE = {
    "metadata": named("web-1"),
    "endpoints": [{"targetRef": {"name": "web"}, "addresses": ["10.0.0.1"]}],
}
ADDRESS = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
NO_LOAD_BALANCER: Chain = ("NoLoadBalancer", State.STUCK, [])
NEW_ONE: Chain = ("NoLoadBalancer", State.PROGRESSING, [])


@pytest.mark.parametrize(
    ("body", "slices", "expected", "summary"),
    [
        (service(9, **ADDRESS), [SLICE], [], "nothing is wrong"),
        (service(1), [SLICE], [NEW_ONE], "something is wrong"),
        (service(9), [SLICE], [NO_LOAD_BALANCER], "something is wrong"),
        (
            service(9, **ADDRESS),
            [],
            [("NotPublished", State.STUCK, [])],
            "it has no ready endpoints",
        ),
        (
            service(1, **ADDRESS),
            [],
            [("NotPublished", State.PROGRESSING, [])],
            "it has no ready endpoints",
        ),
    ],
)
async def test_a_service_waits_for_its_controllers(
    cluster: Cluster,
    body: JSON,
    slices: list[JSON],
    expected: list[Chain],
    summary: str,
) -> None:
    server = Given(pods=[ready_pod(5)], endpointslices=slices)
    found = await explained(cluster, SERVICES, body, server)
    assert (chains(found.causes), found.summary) == (expected, summary)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"capacity": {"storage": "1Gi"}}, State.PROGRESSING),
        (
            {
                "capacity": {"storage": "1Gi"},
                "allocatedResourceStatuses": {"storage": "ControllerResizeInfeasible"},
            },
            State.STUCK,
        ),
        (
            {
                "capacity": {"storage": "1Gi"},
                "conditions": [condition("ControllerResizeError", message="no")],
            },
            State.STUCK,
        ),
        ({"capacity": {"storage": "2Gi"}}, State.HEALTHY),
        ({}, State.HEALTHY),
    ],
)
async def test_a_claim_asks_for_a_larger_volume(
    cluster: Cluster, status: JSON, expected: State
) -> None:
    body = {
        "metadata": named("data"),
        "spec": {"resources": {"requests": {"storage": "2Gi"}}},
        "status": {"phase": "Bound", **status},
    }
    found = await explained(cluster, CLAIMS, body, Given())
    assert found.state is expected
    assert {each.code for each in found.causes} <= {"ClaimResizing"}


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("DiskPressure", ["NodePressure"]),
        ("NetworkUnavailable", ["NodePressure"]),
        ("Other", []),
    ],
)
async def test_a_ready_node_under_pressure_is_not_healthy(
    cluster: Cluster, name: str, codes: list[str]
) -> None:
    conditions = [condition("Ready"), condition(name, message="It is full.")]
    body = {
        "metadata": named("node-0"),
        "spec": {},
        "status": {"conditions": conditions},
    }
    found = await explained(cluster, NODES, body, Given())
    assert [each.code for each in found.causes] == codes


@pytest.mark.parametrize(
    ("name", "reason", "expected"),
    [
        ("PodResizePending", "Infeasible", State.STUCK),
        ("PodResizePending", "Deferred", State.PROGRESSING),
        ("PodResizeInProgress", "", State.PROGRESSING),
        ("Initialized", "", State.HEALTHY),
    ],
)
async def test_a_pod_that_is_not_resized_is_not_healthy(
    cluster: Cluster, name: str, reason: str, expected: State
) -> None:
    node = {"metadata": named("node-0"), "status": {"conditions": [condition("Ready")]}}
    conditions = [condition("Ready"), condition(name, reason=reason)]
    body = ready_pod(5, conditions=conditions)
    found = await explained(cluster, PODS, body, Given(nodes=[node]))
    assert found.state is expected


async def test_a_deployment_is_as_stuck_as_a_pod_that_never_ends(
    cluster: Cluster,
) -> None:
    """Its replica set has another pod, so the rollout is complete."""
    reference = {"kind": "Deployment", "name": "web", "uid": "uid-of-web"}
    replica_set = {
        "metadata": named("web-1", ownerReferences=[{**reference, "controller": True}]),
        "spec": SPEC,
    }
    node = {"metadata": named("node-0"), "status": {"conditions": [condition("Ready")]}}
    owner = [{"uid": "uid-of-web-1", "controller": True}]
    ending = named(
        "web-1-a",
        labels=LABELS,
        ownerReferences=owner,
        deletionTimestamp=before(20),
        deletionGracePeriodSeconds=30,
    )
    pod = {"metadata": ending, "spec": {"nodeName": "node-0"}, "status": {}}
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    body = {
        "metadata": named("web", generation=1),
        "spec": SPEC,
        "status": {"observedGeneration": 1, **dict.fromkeys(counts, 1)},
    }
    server = Given(replicasets=[replica_set], pods=[pod], nodes=[node])
    found = await explained(cluster, DEPLOYMENTS, body, server)
    assert chains(found.causes) == [("KubeletDoesNotEnd", State.STUCK, [])]


async def test_a_stateful_set_with_old_pods_is_not_healthy(cluster: Cluster) -> None:
    """Its pods could not be read, and its status counts them."""
    body = {
        "metadata": named("web", generation=1),
        "spec": {**SPEC, "updateStrategy": {"type": "RollingUpdate"}},
        "status": {
            "observedGeneration": 1,
            "replicas": 1,
            "readyReplicas": 1,
            "availableReplicas": 1,
            "currentRevision": "a",
            "updateRevision": "b",
        },
    }
    found = await explained(cluster, STATEFUL_SETS, body, Given(refused=("pods",)))
    assert [(each.code, each.what) for each in found.causes] == [
        ("RolloutWaits", "0 of 1 pods have the current template")
    ]
