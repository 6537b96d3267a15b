"""States of autoscalers and budgets in which the nearest answer would be wrong."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.autoscaling.v2 import HORIZONTAL_POD_AUTOSCALERS
from controller_manager.api.core.v1 import NODES
from controller_manager.api.policy.v1 import BUDGETS
from controller_manager.explain.cause import State
from tests.clusters import Cluster
from tests.explain.given import NOW, Given, before, chains, event, explained, named

pytestmark = pytest.mark.looptime

LABELS = {"app": "web"}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def condition(kind: str, status: str, reason: str = "", message: str = "") -> Any:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": NOW,
    }


def scaler(name: str, *conditions: Any, **more: Any) -> dict[str, Any]:
    return {
        "metadata": named(name),
        "spec": {
            "scaleTargetRef": TARGET,
            "maxReplicas": 9,
            "metrics": more.pop("metrics", []),
        },
        "status": {"conditions": list(conditions), **more},
    }


ACTIVE = condition("ScalingActive", "True", "ValidMetricFound")


@pytest.mark.parametrize("has_event", [True, False])
async def test_an_autoscaler_that_reads_one_of_two_metrics_is_not_healthy(
    cluster: Cluster, has_event: bool
) -> None:
    """It scales up by the other one, so its conditions say that it is active."""
    metrics = [
        {"type": "Resource", "resource": {"name": "cpu"}},
        {"type": "External", "external": {"metric": {"name": "orders"}}},
    ]
    body = scaler(
        "web",
        ACTIVE,
        metrics=metrics,
        currentMetrics=[{"type": "Resource"}, {"type": ""}],
    )
    failed = event("FailedGetExternalMetric", "no such metric.", before(1))
    server = Given(events=[failed] if has_event else [], apiservices=[])
    found = await explained(cluster, HORIZONTAL_POD_AUTOSCALERS, body, server)
    why = ": no such metric" if has_event else ""
    (cause,) = found.causes
    assert (cause.code, cause.state, cause.what) == (
        "MetricMissing",
        State.STUCK,
        (
            "1 of 2 metrics cannot be read (External orders), so the autoscaler does "
            f"not scale down{why}"
        ),
    )


async def test_only_the_autoscalers_of_the_same_pods_are_rivals(
    cluster: Cluster,
) -> None:
    """A namespace has many; the message names those of the same pods."""
    message = "pods by selector x are controlled by multiple HPAs: [shop/a shop/b]"
    body = scaler(
        "a", condition("ScalingActive", "False", "AmbiguousSelector", message)
    )
    others = [scaler(name) for name in ("a", "b", "other")]
    server = Given(horizontalpodautoscalers=others)
    found = await explained(cluster, HORIZONTAL_POD_AUTOSCALERS, body, server)
    assert [each.what for each in found.causes] == [
        "its pods are also those of another autoscaler (b)"
    ]


async def test_a_scale_that_cannot_be_written_is_no_missing_target(
    cluster: Cluster,
) -> None:
    message = "the HPA controller was unable to update the target scale: denied"
    body = scaler(
        "web", condition("AbleToScale", "False", "FailedUpdateScale", message)
    )
    found = await explained(cluster, HORIZONTAL_POD_AUTOSCALERS, body)
    assert [(each.code, each.remedy) for each in found.causes] == [
        ("NoScaleTarget", "correct what the message says; the controller tries again")
    ]


@pytest.mark.parametrize(
    ("at", "code", "state"),
    [
        (NOW, "ReplicasFought", State.STUCK),
        (before(50), "ReplicasSetTwice", State.HEALTHY),
    ],
)
async def test_an_autoscaler_that_does_not_act_fights_with_no_other(
    cluster: Cluster, at: str, code: str, state: State
) -> None:
    """A user has scaled by hand, for example because the metrics are missing."""
    writer = {
        "manager": "kubectl-edit",
        "operation": "Update",
        "time": at,
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
    }
    web = {
        "metadata": named("web", managedFields=[writer], generation=1),
        "spec": {
            "replicas": 5,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}},
        },
        "status": {
            "observedGeneration": 1,
            "replicas": 5,
            "updatedReplicas": 5,
            "availableReplicas": 5,
        },
    }
    server = Given(horizontalpodautoscalers=[scaler("web", desiredReplicas=3)])
    found = await explained(cluster, DEPLOYMENTS, web, server)
    assert chains(found.causes) == [(code, state, [])]


def budget(name: str, allowed: int, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": named(name, generation=1),
        "spec": {"selector": {"matchLabels": LABELS}, "minAvailable": 1, **spec},
        "status": {
            "observedGeneration": 1,
            "expectedPods": 1 + allowed,
            "disruptionsAllowed": allowed,
        },
    }


def pod(name: str, *, ready: bool) -> dict[str, Any]:
    status = "True" if ready else "False"
    return {
        "metadata": named(name, labels=LABELS),
        "spec": {"nodeName": "node-0", "containers": []},
        "status": {"phase": "Running", "conditions": [condition("Ready", status)]},
    }


async def test_a_pod_with_two_budgets_is_never_evicted(cluster: Cluster) -> None:
    mine, other = budget("web", 1), budget("all", 1)
    pods = [pod("web-0", ready=True), pod("web-1", ready=True)]
    server = Given(poddisruptionbudgets=[mine, other], pods=pods)
    found = await explained(cluster, BUDGETS, mine, server)
    assert [(each.code, each.state, each.what) for each in found.causes] == [
        (
            "BudgetsOverlap",
            State.STUCK,
            (
                "the pod web-0 has other budgets, too (all), so the API server does "
                "not evict it"
            ),
        )
    ]


@pytest.mark.parametrize(
    ("policy", "start", "below"),
    [
        ({}, "no pod may be evicted", ["BudgetBlocksDrain"]),
        (
            {"unhealthyPodEvictionPolicy": "AlwaysAllow"},
            "no pod that is ready may be evicted",
            [],
        ),
    ],
)
async def test_a_budget_may_let_pods_go_that_are_not_ready(
    cluster: Cluster, policy: dict[str, Any], start: str, below: list[str]
) -> None:
    """Such a budget does not block the drain of a node with only such pods."""
    mine = budget("web", 0, **policy)
    ready = condition("Ready", "True")
    node = {
        "metadata": {"name": "node-0"},
        "spec": {"unschedulable": True},
        "status": {"conditions": [ready]},
    }
    server = Given(
        poddisruptionbudgets=[mine], pods=[pod("web-0", ready=False)], nodes=[node]
    )
    (cause,) = (await explained(cluster, BUDGETS, mine, server)).causes
    assert (cause.code, cause.what.partition(":")[0]) == ("BudgetBlocksDrain", start)
    (cordoned,) = (await explained(cluster, NODES, node, server)).causes
    assert [each.code for each in cordoned.because] == below


async def test_a_manager_that_only_created_a_workload_does_not_fight(
    cluster: Cluster,
) -> None:
    """Another one updates it again and again, as a pipeline does."""
    managers = [
        {
            "manager": manager,
            "operation": "Update",
            "time": at,
            "fieldsV1": {"f:spec": {"f:template": {}}},
        }
        for manager, at in (("kubectl-create", before(1)), ("kubectl-set", NOW))
    ]
    metadata = named("web", managedFields=managers, generation=15)
    body = {
        "metadata": {**metadata, "creationTimestamp": before(1)},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}},
        },
        "status": {"observedGeneration": 15},
    }
    found = await explained(cluster, DEPLOYMENTS, body)
    assert [each.code for each in found.causes] == ["ScaledToZero"]
