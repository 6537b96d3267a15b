"""Disruption budgets, and evictions that respect them."""

import json
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.api.policy.v1 import BUDGETS
from controller_manager.client.rest.client import Client, PatchType
from tests.clusters import Cluster
from tests.devcluster.registry.requests import create, update
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

READY: JSON = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
UNREADY: JSON = {"phase": "Running"}
ALLOWING: JSON = {"disruptionsAllowed": 1, "desiredHealthy": 1, "currentHealthy": 2}
FULL: JSON = {"disruptionsAllowed": 0, "desiredHealthy": 2, "currentHealthy": 2}
TOO_FEW: JSON = {"disruptionsAllowed": 0, "desiredHealthy": 2, "currentHealthy": 1}


def make_pod(cluster: Cluster, name: str = "p", **status: Any) -> None:
    metadata = {"name": name, "labels": {"app": "a"}}
    change = {"metadata": metadata, "spec": {"nodeName": "n"}}
    update(cluster, create(cluster, "Pod", change), {"status": status}, "status")


def make_budget(
    cluster: Cluster, name: str = "b", *, observed: int = 1, **parts: Any
) -> None:
    spec = {"selector": {"matchLabels": {"app": "a"}}, "minAvailable": 1}
    more = {"spec": {**spec, **parts.get("spec", {})}, "metadata": {"name": name}}
    budget = create(cluster, "PodDisruptionBudget", more)
    status = {"observedGeneration": observed, **parts.get("status", {})}
    update(cluster, budget, {"status": status}, "status")


async def evict(cluster: Cluster, name: str = "p", **options: Any) -> tuple[int, JSON]:
    path = f"/api/v1/namespaces/default/pods/{name}/eviction"
    body = {"metadata": {"name": name}, "deleteOptions": options}
    answer = await call(cluster, "POST", path, json.dumps(body).encode())
    return answer.status, json.loads(answer.body)


def stored(cluster: Cluster, resource: str, name: str) -> JSON:
    found = cluster.server.storage.collection(resource).get(("default", name))
    assert found is not None
    return found.obj


async def test_an_evicted_pod_says_so(cluster: Cluster) -> None:
    """And it is being deleted; without a budget nothing else is asked."""
    make_pod(cluster, **READY)
    status, body = await evict(cluster)
    assert (status, body["status"]) == (201, "Success")
    pod = stored(cluster, "pods", "p")
    assert "deletionTimestamp" in pod["metadata"]
    assert pod["status"]["conditions"][-1] == {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }


@pytest.mark.parametrize("metadata", [{}, {"name": "q"}])
async def test_an_eviction_names_its_pod(cluster: Cluster, metadata: JSON) -> None:
    make_pod(cluster, **READY)
    path = "/api/v1/namespaces/default/pods/p/eviction"
    answer = await call(
        cluster, "POST", path, json.dumps({"metadata": metadata}).encode()
    )
    message = "name in URL does not match name in Eviction object"
    assert (answer.status, json.loads(answer.body)["message"]) == (400, message)


async def test_a_disruption_is_taken_from_the_budget(cluster: Cluster) -> None:
    """Once: the next pod has to wait for the controller."""
    make_pod(cluster, "one", **READY)
    make_pod(cluster, "two", **READY)
    make_budget(cluster, status=ALLOWING)
    assert (await evict(cluster, "one"))[0] == 201
    status = stored(cluster, "poddisruptionbudgets.policy", "b")["status"]
    assert status["disruptionsAllowed"] == 0
    assert status["disruptedPods"] == {"one": "2026-01-01T00:00:00Z"}
    assert (await evict(cluster, "two"))[0] == 429
    assert "deletionTimestamp" not in stored(cluster, "pods", "two")["metadata"]


async def test_a_refusal_says_which_budget_it_is(cluster: Cluster) -> None:
    make_pod(cluster, **READY)
    make_budget(cluster, status=TOO_FEW)
    _, body = await evict(cluster)
    why = "The disruption budget b needs 2 healthy pods and has 1 currently"
    assert body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "reason": "TooManyRequests",
        "details": {"causes": [{"reason": "DisruptionBudget", "message": why}]},
        "code": 429,
    }


@rows("status", "why")
async def test_a_refusal_says_why_the_budget_allows_nothing(
    cluster: Cluster, status: JSON, why: str
) -> None:
    """The numbers of a budget whose sync has failed may be old ones."""
    make_pod(cluster, **READY)
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": status["reason"],
        "message": status["message"],
    }
    numbers = {"desiredHealthy": 2, "currentHealthy": status.get("currentHealthy", 3)}
    make_budget(cluster, status={**numbers, "conditions": [condition]})
    _, body = await evict(cluster)
    (cause,) = body["details"]["causes"]
    assert cause["message"] == f"The disruption budget b {why}"


async def test_the_last_disruption_changes_the_condition(cluster: Cluster) -> None:
    """Not only the number; of the generation that the status is about."""
    make_pod(cluster, "one", **READY)
    make_pod(cluster, "two", **READY)
    make_budget(cluster, status={**ALLOWING, "disruptionsAllowed": 2})
    assert (await evict(cluster, "one"))[0] == 201
    status = stored(cluster, "poddisruptionbudgets.policy", "b")["status"]
    assert "conditions" not in status
    assert (await evict(cluster, "two"))[0] == 201
    status = stored(cluster, "poddisruptionbudgets.policy", "b")["status"]
    assert status["conditions"] == [
        {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "InsufficientPods",
            "message": "",
        }
    ]


async def test_too_many_unconfirmed_evictions_are_refused(cluster: Cluster) -> None:
    make_pod(cluster, **READY)
    taken = {f"p{number}": "2026-01-01T00:00:00Z" for number in range(2001)}
    make_budget(cluster, status={**ALLOWING, "disruptedPods": taken})
    status, body = await evict(cluster)
    message = (
        'poddisruptionbudget.policy "b" is forbidden: DisruptedPods map too big - too '
        "many evictions not confirmed by PDB controller"
    )
    assert (status, body["message"]) == (403, message)


@pytest.mark.parametrize(
    ("pod", "budget", "expected"),
    [
        (READY, {"status": FULL}, 429),
        (READY, {"status": ALLOWING, "observed": 0}, 429),
        (UNREADY, {"status": FULL}, 201),
        (UNREADY, {"status": TOO_FEW}, 429),
        (
            UNREADY,
            {"status": TOO_FEW, "spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}},
            201,
        ),
        ({"phase": "Pending"}, {"status": TOO_FEW}, 201),
        ({"phase": "Failed"}, {"status": TOO_FEW}, 201),
        ({"phase": "Succeeded"}, {"status": TOO_FEW}, 201),
        (READY, {"status": FULL, "spec": {"selector": {"matchLabels": None}}}, 429),
        (
            READY,
            {"status": FULL, "spec": {"selector": {"matchLabels": {"app": "b"}}}},
            201,
        ),
    ],
)
async def test_the_budget_and_the_pod_decide(
    cluster: Cluster, pod: JSON, budget: JSON, expected: int
) -> None:
    make_pod(cluster, **pod)
    make_budget(cluster, **budget)
    assert (await evict(cluster))[0] == expected


async def test_two_budgets_for_a_pod_are_an_error(cluster: Cluster) -> None:
    make_pod(cluster, **READY)
    make_budget(cluster, "one", status=ALLOWING)
    make_budget(cluster, "two", status=ALLOWING)
    status, body = await evict(cluster)
    assert (status, "reason" in body) == (500, False)
    assert body["message"].startswith("This pod has more than one PodDisruptionBudget")


async def test_preconditions_are_of_the_pod_before(cluster: Cluster) -> None:
    """Its own mark does not make the eviction fail."""
    make_pod(cluster, **READY)
    version = stored(cluster, "pods", "p")["metadata"]["resourceVersion"]
    wrong: JSON = {"preconditions": {"resourceVersion": "1"}}
    assert (await evict(cluster, **wrong))[0] == 409
    right: JSON = {"preconditions": {"resourceVersion": version}}
    assert (await evict(cluster, dryRun=["All"], **right))[0] == 201
    assert "deletionTimestamp" not in stored(cluster, "pods", "p")["metadata"]
    assert (await evict(cluster, **right))[0] == 201


async def test_a_pod_that_is_going_can_be_evicted_again(cluster: Cluster) -> None:
    make_pod(cluster, **READY)
    assert (await evict(cluster))[0] == 201
    make_budget(cluster, status=TOO_FEW)
    assert (await evict(cluster))[0] == 201


_EXPRESSION = {"key": "tier", "operator": "In", "values": ["back"]}


async def _selector(client: Client) -> JSON:
    found: JSON = await client.get_json(BUDGETS, "default", "b")
    selector: JSON = found["spec"]["selector"]
    return selector


@pytest.mark.parametrize(
    ("patch_type", "labels"),
    [(PatchType.STRATEGIC, {"new": "1"}), (PatchType.MERGE, {"old": "1", "new": "1"})],
)
async def test_a_strategic_patch_replaces_the_selector(
    cluster: Cluster, patch_type: PatchType, labels: JSON
) -> None:
    spec = {"selector": {"matchLabels": {"old": "1"}}, "minAvailable": 1}
    create(cluster, "PodDisruptionBudget", {"metadata": {"name": "b"}, "spec": spec})
    selector = {"matchLabels": {"new": "1"}, "matchExpressions": [_EXPRESSION]}
    patch = {"spec": {"selector": selector}}
    await cluster.client.patch(BUDGETS, "default", "b", patch, patch_type)
    assert await _selector(cluster.client) == {**selector, "matchLabels": labels}
    other = {"metadata": {"labels": {"a": "b"}}}
    await cluster.client.patch(BUDGETS, "default", "b", other, patch_type)
    assert await _selector(cluster.client) == {**selector, "matchLabels": labels}
