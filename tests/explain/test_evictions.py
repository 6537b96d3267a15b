"""Pods that a taint of their fixed node evicts again and again."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS
from controller_manager.api.batch.v1 import JOBS
from controller_manager.api.meta import AnyResource
from controller_manager.explain.cause import State
from tests.clusters import Cluster
from tests.explain.given import LONG_AGO, Chain, Given, chains, explained, named

pytestmark = pytest.mark.looptime

LABELS = {"app": "web"}
NODE_NAME = {"nodeName": "node-0"}
SELECTOR = {"nodeSelector": {"disk": "fast"}}
AFFINITY = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "disk", "operator": "In", "values": ["fast"]}
                        ]
                    }
                ]
            }
        }
    }
}
EVICTED: Chain = ("TaintEvicts", State.STUCK, [])


def node(name: str, effect: str = "NoExecute", **labels: str) -> Any:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}
    taint = {"key": "gpu", "value": "a", "effect": effect}
    return {
        "metadata": {**named(name), "namespace": "", "labels": labels},
        "spec": {"taints": [taint] if effect else []},
        "status": {"conditions": [ready]},
    }


FIXED = node("node-0", disk="fast")
FREE = node("node-1", "", disk="slow")


def tolerating(seconds: int | None, **spec: Any) -> dict[str, Any]:
    toleration = {"key": "gpu", "operator": "Exists", "effect": "NoExecute"}
    if seconds is not None:
        toleration["tolerationSeconds"] = seconds  # type: ignore[assignment]
    return {**spec, "tolerations": [toleration]}


def workload(pod: dict[str, Any], **status: Any) -> dict[str, Any]:
    """Return a workload whose pods are all available at present."""
    containers = [{"name": "app", "image": "a"}]
    counts = {
        "replicas": 1,
        "updatedReplicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 1,
    }
    return {
        "metadata": named("web", generation=1, labels=LABELS),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {"containers": containers, **pod},
            },
        },
        "status": {"observedGeneration": 1, **counts, **status},
    }


@pytest.mark.parametrize(
    ("pod", "nodes", "expected"),
    [
        (NODE_NAME, [FIXED, FREE], [EVICTED]),
        (tolerating(30, **NODE_NAME), [FIXED, FREE], [EVICTED]),
        (tolerating(30, **SELECTOR), [FIXED, FREE], [EVICTED]),
        (tolerating(30, **AFFINITY), [FIXED, FREE], [EVICTED]),
        (tolerating(None, **NODE_NAME), [FIXED, FREE], []),
        (NODE_NAME, [node("node-0", "NoSchedule"), FREE], []),
        # Another node has a place for the pods.
        (tolerating(30, **SELECTOR), [FIXED, node("node-2", "", disk="fast")], []),
        # The pods are not fixed, or the scheduler keeps them away: it says so.
        (tolerating(30), [FIXED, FREE], []),
        (SELECTOR, [FIXED, FREE], []),
        ({"nodeName": None, "nodeSelector": None}, [FIXED], []),
    ],
)
async def test_a_taint_evicts_the_pods_of_a_fixed_node(
    cluster: Cluster, pod: dict[str, Any], nodes: list[Any], expected: list[Chain]
) -> None:
    """Also while all of them happen to run, until their toleration ends."""
    body = workload(pod)
    found = await explained(cluster, DEPLOYMENTS, body, Given(nodes=nodes))
    assert chains(found.causes) == expected


async def test_the_pods_of_a_node_that_does_not_exist_are_deleted_again_and_again(
    cluster: Cluster,
) -> None:
    found = await explained(
        cluster, DEPLOYMENTS, workload(NODE_NAME), Given(nodes=[FREE])
    )
    assert chains(found.causes) == [("NodeGone", State.STUCK, [])]


async def test_the_node_the_taint_and_the_time_are_named(cluster: Cluster) -> None:
    body = workload(tolerating(30, **SELECTOR))
    found = await explained(cluster, DEPLOYMENTS, body, Given(nodes=[FIXED]))
    assert [(str(each.object), each.what) for each in found.causes] == [
        (
            "Node node-0",
            (
                "the pods may run only on node-0, whose taint gpu=a:NoExecute evicts "
                "each of them after 30 s"
            ),
        )
    ]


@pytest.mark.parametrize(
    ("resource", "status", "above"),
    [
        (STATEFUL_SETS, {"currentRevision": "a", "updateRevision": "a"}, ""),
        (JOBS, {}, "JobRuns"),
        (DAEMON_SETS, {"desiredNumberScheduled": 1, "updatedNumberScheduled": 1}, ""),
    ],
)
async def test_each_owner_of_pods_is_told_of_the_taint(
    cluster: Cluster, resource: AnyResource, status: dict[str, Any], above: str
) -> None:
    body = workload(tolerating(30, **NODE_NAME), **status)
    found = await explained(cluster, resource, body, Given(nodes=[FIXED]))
    causes = found.causes[0].because if above else found.causes
    assert EVICTED in chains(tuple(causes))
    assert found.state is State.STUCK
