"""States of workloads and services in which the nearest answer would be wrong."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import DAEMON_SETS, DEPLOYMENTS
from controller_manager.api.batch.v1 import JOBS
from controller_manager.api.core.services import SERVICES
from controller_manager.explain.cause import State
from tests.clusters import Cluster
from tests.explain.given import NOW, Given, before, chains, explained, named

pytestmark = pytest.mark.looptime

LABELS = {"app": "web"}
TEMPLATE = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "app", "image": "a"}]},
}
SPEC = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
READY = {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
NODE = {
    "metadata": {"name": "node-0"},
    "spec": {},
    "status": {"conditions": [READY]},
}


def workload(spec: dict[str, Any], **status: Any) -> dict[str, Any]:
    observed = {"observedGeneration": 1, **status}
    metadata = named("web", generation=1, labels=LABELS)
    return {"metadata": metadata, "spec": {**SPEC, **spec}, "status": observed}


def pod(name: str, *, ready: bool, phase: str = "Running", **more: Any) -> Any:
    """Return a pod of the workload on a node, which crashes unless it is ready."""
    owner = {"uid": "uid-of-web", "controller": True}
    metadata = named(name, labels=LABELS, ownerReferences=[owner], **more)
    state: dict[str, Any] = {"running": {"startedAt": NOW}}
    if not ready:
        state = {"waiting": {"reason": "CreateContainerConfigError", "message": "x"}}
    return {
        "metadata": metadata,
        "spec": {"nodeName": "node-0", "containers": [{"name": "app"}]},
        "status": {
            "phase": phase,
            "conditions": [READY] if ready else [],
            "containerStatuses": [{"name": "app", "ready": ready, "state": state}],
        },
    }


ENDING: dict[str, Any] = {
    "deletionTimestamp": before(1),
    "deletionGracePeriodSeconds": 30,
}
COUNTS = {"desiredNumberScheduled": 1, "updatedNumberScheduled": 1}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod("a", ready=True), pod("b", ready=False)], []),
        ([pod("a", ready=False), pod("b", ready=True)], []),
        (
            [pod("a", ready=False), pod("b", ready=False, **ENDING)],
            [("ContainerConfig", State.STUCK, [])],
        ),
        (
            [pod("b", ready=False, **ENDING)],
            [("KubeletDoesNotEnd", State.STUCK, [])],
        ),
    ],
)
async def test_a_node_has_two_pods_of_a_daemon_set_while_one_is_replaced(
    cluster: Cluster, pods: list[Any], expected: list[Any]
) -> None:
    """One that is available is enough; one that ends is no cause beside its successor.

    With maxSurge the old pod serves until the new one is available.
    """
    server = Given(nodes=[NODE], pods=pods)
    found = await explained(cluster, DAEMON_SETS, workload({}, **COUNTS), server)
    below = [each.because for each in found.causes]
    assert [chains(each) for each in below] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("strategy", "code", "state"),
    [
        ("OnDelete", "OnDelete", State.STUCK),
        ("RollingUpdate", "RolloutWaits", State.PROGRESSING),
    ],
)
async def test_a_daemon_set_with_pods_of_an_old_template_is_not_healthy(
    cluster: Cluster, strategy: str, code: str, state: State
) -> None:
    body = workload(
        {"updateStrategy": {"type": strategy}},
        **{**COUNTS, "updatedNumberScheduled": 0},
    )
    server = Given(nodes=[NODE], pods=[pod("a", ready=True)])
    found = await explained(cluster, DAEMON_SETS, body, server)
    assert chains(found.causes) == [(code, state, [])]


async def test_old_pods_that_fail_are_a_cause_beside_a_pause(cluster: Cluster) -> None:
    """The pause keeps only the new template from its pods."""
    metadata = named(
        "web-1",
        generation=1,
        labels=LABELS,
        ownerReferences=[{"uid": "uid-of-web", "controller": True}],
    )
    old = {
        "metadata": metadata,
        "spec": {
            **SPEC,
            "replicas": 1,
            "template": {**TEMPLATE, "spec": {"containers": [{"name": "old"}]}},
        },
        "status": {"replicas": 1, "observedGeneration": 1},
    }
    failing = pod("web-1-x", ready=False)
    failing["metadata"]["ownerReferences"][0]["uid"] = "uid-of-web-1"
    body = workload({"replicas": 1, "paused": True}, replicas=1, updatedReplicas=0)
    server = Given(nodes=[NODE], pods=[failing], replicasets=[old])
    found = await explained(cluster, DEPLOYMENTS, body, server)
    assert chains(found.causes) == [
        ("Paused", State.STUCK, []),
        ("ContainerConfig", State.STUCK, []),
    ]


async def test_a_suspended_job_may_have_pods_that_have_failed(cluster: Cluster) -> None:
    failed = pod("web-x", ready=False, phase="Failed")
    body = workload({"suspend": True}, failed=1)
    found = await explained(cluster, JOBS, body, Given(pods=[failed]))
    assert [(each.code, each.what) for each in found.causes] == [
        ("Suspended", "the job was suspended, so it starts no pods")
    ]


async def test_a_job_waits_for_its_pods_to_end(cluster: Cluster) -> None:
    """With podReplacementPolicy Failed no other pod starts before."""
    ending = pod("web-x", ready=False, **ENDING)
    body = workload(
        {"podReplacementPolicy": "Failed", "completions": 1, "parallelism": 1},
        terminating=1,
        startTime=NOW,
    )
    found = await explained(cluster, JOBS, body, Given(pods=[ending], nodes=[NODE]))
    assert chains(found.causes) == [
        ("JobRuns", State.STUCK, [("KubeletDoesNotEnd", State.STUCK, [])])
    ]


SERVICE = {"metadata": named("web"), "spec": {"selector": LABELS}}
OTHER = {"metadata": named("other", labels={"app": "other"})}


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        (
            0,
            ("NothingMatches", State.STUCK, [("ScaledToZero", State.HEALTHY, [])]),
        ),
        (
            1,
            (
                "NothingMatches",
                State.PROGRESSING,
                [("NoReplicaSet", State.PROGRESSING, [])],
            ),
        ),
    ],
)
async def test_a_service_lacks_pods_because_its_workload_has_none(
    cluster: Cluster, replicas: int, expected: Any
) -> None:
    """Its selector is right, and the nearest pod is that of another program."""
    server = Given(deployments=[workload({"replicas": replicas})], pods=[])
    found = await explained(cluster, SERVICES, SERVICE, server)
    assert chains(found.causes) == [expected]
    assert (found.causes[0].what, found.causes[0].remedy) == (
        "no pod has the labels app=web, with which Deployment web makes pods",
        "",
    )


async def test_pods_that_have_ended_do_not_become_ready(cluster: Cluster) -> None:
    pods = [pod(name, ready=False, phase="Succeeded") for name in ("a", "b")]
    found = await explained(cluster, SERVICES, SERVICE, Given(pods=pods))
    assert [(each.code, each.state, each.what) for each in found.causes] == [
        ("PodsNotReady", State.STUCK, "all pods that it selects, 2, have ended")
    ]
