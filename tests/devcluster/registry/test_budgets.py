"""Disruption budgets, as an API server stores them."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.api.policy.v1 import BUDGETS
from controller_manager.client.rest.client import Client, PatchType
from tests.clusters import Cluster
from tests.devcluster.registry.requests import create

pytestmark = pytest.mark.looptime

_EXPRESSION = {"key": "tier", "operator": "In", "values": ["back"]}


async def _selector(client: Client) -> JSON:
    found: JSON = await client.get_json(BUDGETS, "default", "b")
    selector: JSON = found["spec"]["selector"]
    return selector


@pytest.mark.parametrize(
    ("patch_type", "labels"),
    [
        (PatchType.STRATEGIC, {"new": "1"}),
        (PatchType.MERGE, {"old": "1", "new": "1"}),
    ],
)
async def test_a_strategic_patch_replaces_the_selector(
    cluster: Cluster, patch_type: PatchType, labels: JSON
) -> None:
    """A merge patch changes the labels that it names, and all expressions."""
    spec = {"selector": {"matchLabels": {"old": "1"}}, "minAvailable": 1}
    create(cluster, "PodDisruptionBudget", {"metadata": {"name": "b"}, "spec": spec})
    selector = {"matchLabels": {"new": "1"}, "matchExpressions": [_EXPRESSION]}
    patch = {"spec": {"selector": selector}}
    await cluster.client.patch(BUDGETS, "default", "b", patch, patch_type)
    assert await _selector(cluster.client) == {**selector, "matchLabels": labels}
    other = {"metadata": {"labels": {"a": "b"}}}
    await cluster.client.patch(BUDGETS, "default", "b", other, patch_type)
    assert await _selector(cluster.client) == {**selector, "matchLabels": labels}
