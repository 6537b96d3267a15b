"""The situations of upstream's e2e and integration tests of stateful sets.

Upstream: test/e2e/apps/statefulset.go, test/integration/statefulset.
"""

from dataclasses import replace
from typing import Any, Final

import pytest

from controller_manager.api.apps.v1 import CONTROLLER_REVISIONS, STATEFUL_SETS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import NAMESPACES, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import is_deleting
from controller_manager.client.builder import Connections
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import TOKEN, Cluster, RecordingTransport, make_config, run_manager
from tests.controllers.apps.statefulset.builders import (
    claim_template,
    stateful_set_json,
)
from tests.controllers.apps.statefulset.test_on_cluster import Sets, config, manager
from tests.controllers.responses import refusal
from tests.controllers.user import settle

pytestmark = pytest.mark.looptime

CLAIMED: Final[JSON] = {"volumeClaimTemplates": [claim_template()]}


def policy(**given: str) -> JSON:
    return {**CLAIMED, "persistentVolumeClaimRetentionPolicy": given}


@pytest.fixture
def sets(cluster: Cluster) -> Sets:
    return Sets(cluster)


async def test_a_set_goes_while_it_scales_down(cluster: Cluster, sets: Sets) -> None:
    """A condemned pod already owns its claim, and each kept the other."""
    ours = config()
    names = (*ours.generic.controllers, "persistentvolumeclaim-protection-controller")
    both = replace(ours, generic=replace(ours.generic, controllers=names))
    async with cluster.nodes(binds_claims=True), cluster.manager(both):
        await sets.make(**policy(whenScaled="Delete"))
        await settle(60)
        await sets.edit(replicas=1)
        await settle(1)
        assert (await sets.owners_of_claims())["data-web-1"] == ["Pod"]
        pod = await sets.client.get(PODS, "default", "web-1")
        assert not is_deleting(pod)
        await sets.delete(STATEFUL_SETS, "web", "Foreground")
        await settle(120)
        assert await sets.pods() == []
        assert await sets.claims() == ["data-web-0"]


@pytest.mark.parametrize("kind", ["pods", "persistentvolumeclaims"])
async def test_nothing_is_retried_in_a_namespace_that_is_being_deleted(
    cluster: Cluster, sets: Sets, kind: str
) -> None:
    """Neither a pod nor a claim can be created there."""
    await sets.create(NAMESPACES, {"metadata": {"name": "shop"}})
    subject = stateful_set_json(replicas=1, **({} if kind == "pods" else CLAIMED))
    subject["metadata"]["namespace"] = "shop"
    async with manager(cluster) as recording:
        await sets.create(STATEFUL_SETS, subject)
        await settle(5)
        await sets.client.delete(NAMESPACES, "", "shop")
        for claim in await sets.claims():
            free: JSON = {"metadata": {"finalizers": None}}
            await sets.client.patch(CLAIMS, "shop", claim, free)
            await sets.client.delete(CLAIMS, "shop", claim)
        recording.writes.clear()
        await sets.client.delete(PODS, "shop", "web-0")
        await settle(600)
    refused = [each.path for each in recording.writes if each.method == "POST"]
    assert set(refused) == {f"/api/v1/namespaces/shop/{kind}"}
    assert len(refused) <= 3  # one for each event of the pod and the claim


LOST: Final = "the answer is lost"
ANSWERS: Final = {
    "Forbidden": 403,
    "NotFound": 404,
    "Conflict": 409,
    "Invalid": 422,
    "InternalError": 500,
    "Timeout": 504,
}
REQUESTS: Final = {
    ("POST", "controllerrevisions"),
    ("POST", "persistentvolumeclaims"),
    ("POST", "pods"),
    ("PUT", "statefulsets/status"),
    ("DELETE", "pods"),
    ("PUT", "persistentvolumeclaims"),
    ("GET", "persistentvolumeclaims"),
    ("GET", "statefulsets"),
    ("GET", "pods"),
}


class Faulty(RecordingTransport):
    """Fails the first request of each verb for each resource."""

    def __init__(self, cluster: Cluster, fault: str) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self._fault = fault
        self.failed: set[tuple[str, str]] = set()

    async def request(self, request: Request) -> Response:
        of_sets = request.path.partition("/namespaces/default/")[2].split("/")
        kind = (request.method, "/".join((of_sets[0], *of_sets[2:])))
        if kind[1] in {"", "events"} or kind in self.failed:
            return await super().request(request)
        self.failed.add(kind)
        if self._fault == LOST:
            await super().request(request)
            raise TransportError(self._fault)
        return refusal(ANSWERS[self._fault], self._fault)


@pytest.mark.parametrize("fault", [*ANSWERS, LOST])
async def test_a_set_survives_faults(cluster: Cluster, sets: Sets, fault: str) -> None:
    """It is created, updated, repaired and scaled down all the same."""
    transport = Faulty(cluster, fault)
    async with cluster.nodes(binds_claims=True), cluster.manager(config(), transport):
        await sets.make(replicas=2, **policy(whenScaled="Delete"))
        await settle(120)
        await sets.use("app:v2")
        await settle(120)
        assert await sets.images() == {"web-0": "app:v2*", "web-1": "app:v2*"}
        await sets.edit(replicas=1)
        await settle(120)
        assert await sets.images() == {"web-0": "app:v2*"}
        assert await sets.claims() == ["data-web-0"]
        status = (await sets.stateful_set()).status
    sizes = (status.replicas, status.available_replicas, status.updated_replicas)
    assert (sizes, status.current_revision) == ((1, 1, 1), status.update_revision)
    assert transport.failed >= REQUESTS


def config_with(**gates: bool) -> Config:
    config = make_config(controllers=("statefulset-controller",))
    return replace(config, features=FeatureGates(gates))


@pytest.mark.parametrize("strategy", ["RollingUpdate", "OnDelete"])
@pytest.mark.parametrize(("gate", "shown"), [(True, (1.0, 2.0)), (False, (None, None))])
async def test_the_metrics_of_unavailable_pods_come_with_their_gate(
    cluster: Cluster, sets: Sets, gate: bool, shown: tuple[Any, Any], strategy: str
) -> None:
    config = config_with(MaxUnavailableStatefulSet=gate)
    connections = Connections(cluster.transport, root_ca="PEM")
    labels = {
        "statefulset_namespace": "default",
        "statefulset_name": "web",
        "pod_management_policy": "OrderedReady",
    }
    async with run_manager(connections, cluster.clock, cluster.rng, config) as running:

        def values() -> tuple[Any, ...]:
            prefix = "statefulset_controller_statefulset"
            return tuple(
                running._registry.get_sample_value(f"{prefix}_{name}", labels)
                for name in ("max_unavailable", "unavailable_replicas")
            )

        await sets.make(replicas=2, updateStrategy={"type": strategy})
        await settle()
        assert values() == shown
        await sets.delete(STATEFUL_SETS, "web")
        await settle()
        assert values() == (None, None)


@pytest.mark.parametrize(("gate", "count"), [(True, 1), (False, 2)])
async def test_a_new_default_is_no_change_of_the_template_if_the_gate_says_so(
    cluster: Cluster, sets: Sets, gate: bool, count: int
) -> None:
    """The stored revision lacks what an API server fills in since its upgrade."""
    config = config_with(StatefulSetSemanticRevisionComparison=gate)
    async with cluster.manager(config):
        await sets.make(replicas=2)
        await settle()
    (written,) = (await sets.client.list_page(CONTROLLER_REVISIONS)).items
    name = written.metadata.name
    stored = await sets.client.get_json(CONTROLLER_REVISIONS, "default", name)
    del stored["data"]["spec"]["template"]["spec"]["dnsPolicy"]
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        del stored["metadata"][field]
    await sets.delete(CONTROLLER_REVISIONS, name)
    await sets.create(CONTROLLER_REVISIONS, stored)
    async with cluster.manager(config):
        await settle()
        found = (await sets.client.list_page(CONTROLLER_REVISIONS)).items
    assert len(found) == count
    assert ((await sets.stateful_set()).status.update_revision == name) is gate
