"""The targets of autoscalers, and the pods that the autoscalers count."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.autoscaling.v2 import HORIZONTAL_POD_AUTOSCALERS
from controller_manager.client.rest.transport import Request, Response
from controller_manager.explain.cause import State
from tests.clusters import Cluster
from tests.explain.given import Chain, Given, chains, explained, named

pytestmark = pytest.mark.looptime

LABELS = {"app": "web"}
SELECTOR = {"matchLabels": LABELS}
TEMPLATE = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "app", "image": "a"}]},
}
FOREIGN: Chain = ("ForeignPods", State.STUCK, [])


def owned_by(kind: str, name: str) -> list[dict[str, Any]]:
    return [{"kind": kind, "name": name, "uid": f"uid-of-{name}", "controller": True}]


def pod(name: str, kind: str = "", owner: str = "", **status: Any) -> Any:
    owners = owned_by(kind, owner) if kind else []
    return {
        "metadata": named(name, labels=LABELS, ownerReferences=owners),
        "spec": {},
        "status": {"phase": "Running", **status},
    }


def autoscaler(kind: str, api_version: str = "apps/v1", **status: Any) -> Any:
    target = {"apiVersion": api_version, "kind": kind, "name": "web"}
    conditions = [
        {"type": "AbleToScale", "status": "True"},
        {"type": "ScalingActive", "status": "True", **status},
    ]
    return {
        "metadata": named("web"),
        "spec": {"scaleTargetRef": target, "maxReplicas": 9},
        "status": {"conditions": conditions, "desiredReplicas": 2},
    }


def workload(available: int = 0) -> Any:
    return {
        "metadata": named("web", generation=1),
        "spec": {"replicas": available, "selector": SELECTOR, "template": TEMPLATE},
        "status": {"observedGeneration": 1},
    }


SETS = [
    {
        "metadata": named(name, ownerReferences=owned_by("Deployment", owner)),
        "spec": {"replicas": 0, "selector": SELECTOR},
    }
    for name, owner in (("web-1", "web"), ("other-1", "other"))
]
OWN = pod("a", "ReplicaSet", "web-1")


@pytest.mark.parametrize(
    ("pods", "expected", "names"),
    [
        ([OWN], [], ""),
        ([OWN, pod("b", "ReplicaSet", "other-1")], [FOREIGN], "Deployment other"),
        ([OWN, pod("b", "Job", "batch")], [FOREIGN], "Job batch"),
        ([OWN, pod("b")], [FOREIGN], "Pod b"),
        ([OWN, pod("b", "Job", "batch", phase="Failed")], [], ""),
    ],
)
async def test_an_autoscaler_counts_pods_that_its_target_does_not_own(
    cluster: Cluster, pods: list[Any], expected: list[Chain], names: str
) -> None:
    """One that has failed does not count."""
    server = Given(deployments=[workload()], replicasets=SETS, pods=pods)
    body = autoscaler("Deployment")
    found = await explained(cluster, HORIZONTAL_POD_AUTOSCALERS, body, server)
    assert chains(found.causes) == expected
    assert not names or [each.what for each in found.causes] == [
        (
            "the selector of Deployment web, app=web, also matches 1 pod of others "
            f"({names}), which the autoscaler counts as pods of its target"
        )
    ]


async def test_the_pods_of_a_stateful_set_are_its_own(cluster: Cluster) -> None:
    pods = [pod("web-0", "StatefulSet", "web"), pod("b", "StatefulSet", "db")]
    server = Given(statefulsets=[workload()], pods=pods)
    body = autoscaler("StatefulSet")
    found = await explained(cluster, HORIZONTAL_POD_AUTOSCALERS, body, server)
    assert [each.what for each in found.causes if each.code == "ForeignPods"] == [
        (
            "the selector of StatefulSet web, app=web, also matches 1 pod of others "
            "(StatefulSet db), which the autoscaler counts as pods of its target"
        )
    ]


async def test_a_metric_of_a_foreign_pod_is_not_to_be_repaired(
    cluster: Cluster,
) -> None:
    body = autoscaler("Deployment", status="False", reason="FailedGetResourceMetric")
    server = Given(deployments=[workload()], replicasets=SETS, pods=[OWN, pod("b")])
    found = await explained(cluster, HORIZONTAL_POD_AUTOSCALERS, body, server)
    assert chains(found.causes) == [("MetricMissing", State.STUCK, [FOREIGN])]
    assert found.causes[0].remedy == ""


async def test_an_autoscaler_is_as_stuck_as_its_target(cluster: Cluster) -> None:
    owner = owned_by("Deployment", "web")
    failing = {
        "metadata": named("web-1", generation=1, ownerReferences=owner),
        "spec": {"replicas": 1, "selector": SELECTOR, "template": TEMPLATE},
        "status": {
            "observedGeneration": 1,
            "conditions": [
                {"type": "ReplicaFailure", "status": "True", "message": "no"}
            ],
        },
    }
    server = Given(deployments=[workload(1)], replicasets=[failing])
    body = autoscaler("Deployment")
    found = await explained(cluster, HORIZONTAL_POD_AUTOSCALERS, body, server)
    refused: Chain = ("CreationRefused", State.STUCK, [])
    assert chains(found.causes) == [
        ("TargetWaits", State.STUCK, [("RolloutWaits", State.STUCK, [refused])])
    ]


class Scaled(Given):
    """Serves a custom resource with a scale, too."""

    async def request(self, request: Request) -> Response:
        if request.path.endswith("/rollouts/web/scale"):
            return self.answer({"status": {"selector": "app=web"}})
        if request.path in ("/api", "/apis"):
            return self.discovery(request.path == "/apis")
        return await super().request(request)

    def answer(self, body: Any, media: str = "application/json") -> Response:
        answer = msgspec.json.encode(body)
        return Response(200, {"content-type": media}, answer)

    def discovery(self, is_groups: bool) -> Response:
        resource = {
            "resource": "rollouts",
            "responseKind": {"kind": "Rollout"},
            "scope": "Namespaced",
            "verbs": ["get", "list"],
            "subresources": [{"subresource": "scale"}],
        }
        version = {"version": "v1", "resources": [resource]}
        group = {"metadata": {"name": "example.com"}, "versions": [version]}
        body = {"items": [group] if is_groups else []}
        media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        return self.answer(body, media)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod("a", "ReplicaSet", "web-1")], []),
        ([pod("a", "Unknown", "x"), pod("b")], []),
        ([pod("a", "ReplicaSet", "other-1")], [FOREIGN]),
    ],
)
async def test_a_custom_target_owns_pods_through_unknown_owners(
    cluster: Cluster, pods: list[Any], expected: list[Chain]
) -> None:
    """Only pods of other workloads are called foreign there."""
    custom = {"metadata": named("web"), "spec": {"replicas": 1}}
    other = {"metadata": named("other"), "spec": {}}
    server = Scaled(rollouts=[custom], replicasets=SETS, deployments=[other], pods=pods)
    body = autoscaler("Rollout", "example.com/v1")
    found = await explained(cluster, HORIZONTAL_POD_AUTOSCALERS, body, server)
    assert chains(found.causes) == expected


def scaled_by(kind: str, target: str) -> Any:
    """Return an autoscaler with one metric that has a target of a type."""
    source = {"metric": {"name": "queue"}, "target": {"type": target}}
    metrics = [{"type": kind, f"{kind[:1].lower()}{kind[1:]}": source}]
    body = autoscaler("Deployment")
    return {**body, "spec": {**body["spec"], "metrics": metrics}}


@pytest.mark.parametrize(
    ("kind", "target", "expected"),
    [
        ("External", "AverageValue", []),
        ("Object", "AverageValue", []),
        ("External", "Value", [FOREIGN]),
        ("Object", "Value", [FOREIGN]),
        ("Pods", "AverageValue", [FOREIGN]),
        ("Resource", "AverageValue", [FOREIGN]),
    ],
)
async def test_pods_of_others_matter_to_metrics_that_are_read_by_pod(
    cluster: Cluster, kind: str, target: str, expected: list[Chain]
) -> None:
    """An average of another object is divided by the replicas in the scale."""
    server = Given(deployments=[workload()], replicasets=SETS, pods=[OWN, pod("b")])
    body = scaled_by(kind, target)
    found = await explained(cluster, HORIZONTAL_POD_AUTOSCALERS, body, server)
    assert chains(found.causes) == expected


async def test_pods_of_others_do_not_explain_a_missing_metrics_api(
    cluster: Cluster,
) -> None:
    message = (
        "the HPA was unable to compute the replica count: failed to get cpu "
        "utilization: unable to get metrics for resource cpu: unable to fetch metrics "
        "from resource metrics API: the server could not find the requested resource"
    )
    status = {"status": "False", "reason": "FailedGetResourceMetric"}
    body = autoscaler("Deployment", **status, message=message)
    server = Given(deployments=[workload()], replicasets=SETS, pods=[OWN, pod("b")])
    found = await explained(cluster, HORIZONTAL_POD_AUTOSCALERS, body, server)
    missing: Chain = ("MetricMissing", State.STUCK, [])
    assert chains(found.causes) == [FOREIGN, missing]
    assert found.causes[1].remedy == (
        "see that the metric exists, and that its metrics API answers"
    )
