"""Writes with too much of something."""

import json

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create, update
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

LARGE = {"data": {"a": "QUFB" * (350 * 1024)}}
TOO_LONG = "Too long: may not be more than 1048576 bytes"


@pytest.mark.parametrize(
    ("kind", "change", "problem"),
    [
        ("ConfigMap", LARGE, f"[]: {TOO_LONG}"),
        ("Secret", LARGE, f"data: {TOO_LONG}"),
    ],
)
async def test_too_much_is_refused(
    cluster: Cluster, kind: str, change: JSON, problem: str
) -> None:
    with pytest.raises(Refusal) as raised:
        create(cluster, kind, change)
    assert causes(raised.value)[0] == problem


async def test_too_many_unconfirmed_evictions_are_refused(cluster: Cluster) -> None:
    """The controller seems to be away."""
    labels = {"app": "a"}
    create(cluster, "Pod", {"metadata": {"labels": labels}, "spec": {"nodeName": "n"}})
    spec = {"selector": {"matchLabels": labels}, "minAvailable": 1}
    budget = create(cluster, "PodDisruptionBudget", {"spec": spec})
    taken = {f"p{number}": "2026-01-01T00:00:00Z" for number in range(2001)}
    status = {"observedGeneration": 1, "disruptionsAllowed": 1, "disruptedPods": taken}
    update(cluster, budget, {"status": status}, "status")
    pod = next(iter(cluster.server.storage.collection("pods"))).obj
    update(cluster, pod, {"status": {"phase": "Running"}}, "status")
    path = "/api/v1/namespaces/default/pods/a/eviction"
    answer = await call(cluster, "POST", path, b'{"metadata":{"name":"a"}}')
    assert (answer.status, json.loads(answer.body)["message"]) == (
        403,
        (
            'poddisruptionbudget.policy "a" is forbidden: DisruptedPods map too big - '
            "too many evictions not confirmed by PDB controller"
        ),
    )
