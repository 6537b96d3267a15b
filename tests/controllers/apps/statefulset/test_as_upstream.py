"""The situations of upstream's e2e and integration tests of stateful sets.

Upstream: test/e2e/apps/statefulset.go, test/integration/statefulset.

"""

import json
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest

from controller_manager.api.apps.v1 import CONTROLLER_REVISIONS, STATEFUL_SETS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import NAMESPACES, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import PartialObject, is_deleting
from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.manager.manager import ControllerManager
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import TOKEN, Cluster, RecordingTransport, make_config, run_manager
from tests.controllers.apps.replicaset.test_on_cluster import hold
from tests.controllers.apps.statefulset.builders import (
    claim_template,
    owner,
    rolling,
    stateful_set_json,
)
from tests.controllers.apps.statefulset.test_on_cluster import Sets, config, manager
from tests.controllers.builders import template
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime


PARALLEL: dict[str, Any] = {"podManagementPolicy": "Parallel"}


class Operator(Sets):
    """A user who plays the kubelet, too."""

    async def all_ready(self) -> None:
        """Let all pods run as they appear, until no new one appears."""
        for _ in range(12):
            for pod in await self.pods():
                if pod.status.phase == "Pending":
                    await self.make_ready(pod.metadata.name)
            await settle(2)

    async def break_pod(self, *names: str) -> None:
        status = {"conditions": [{"type": "Ready", "status": "False"}]}
        for name in names:
            await self.client.patch(
                PODS, "default", name, {"status": status}, subresource="status"
            )
        await settle(2)

    async def end_pod(self, name: str, phase: str) -> None:
        status = {"status": {"phase": phase}}
        await self.client.patch(PODS, "default", name, status, subresource="status")

    async def names(self) -> list[str]:
        return sorted(each.metadata.name for each in await self.pods())

    async def uids(self) -> dict[str, str]:
        return {each.metadata.name: each.metadata.uid for each in await self.pods()}

    async def owners_of_claims(self) -> dict[str, list[str]]:
        page = await self.client.list_page(CLAIMS)
        return {each.metadata.name: kinds_of_owners(each) for each in page.items}

    async def staying_claims(self) -> list[str]:
        """Return the claims that are not being deleted; a finalizer holds the rest."""
        page = await self.client.list_page(CLAIMS)
        return [each.metadata.name for each in page.items if not is_deleting(each)]


def kinds_of_owners(obj: PartialObject | Any) -> list[str]:
    return [each.kind for each in obj.metadata.owner_references or ()]


@pytest.fixture
def operator(cluster: Cluster) -> Operator:
    return Operator(cluster)


async def test_scaling_halts_beside_a_pod_that_is_not_ready(
    cluster: Cluster, operator: Operator
) -> None:
    """Conformance: predictable order, in both directions."""
    async with manager(cluster):
        await operator.make(replicas=1)
        await settle(2)
        await operator.all_ready()
        await operator.break_pod("web-0")
        await operator.edit(replicas=3)
        await settle(60)
        assert await operator.names() == ["web-0"]
        await operator.make_ready("web-0")
        await settle(2)
        await operator.all_ready()
        assert await operator.names() == ["web-0", "web-1", "web-2"]
        await operator.break_pod("web-0", "web-1", "web-2")
        await operator.edit(replicas=0)
        await settle(60)
        assert await operator.names() == ["web-0", "web-1", "web-2"]
        for name in ("web-0", "web-1", "web-2"):
            await operator.make_ready(name)
        await settle(10)
        assert await operator.names() == []
        assert (await operator.stateful_set()).status.replicas == 0


async def test_a_failed_pod_below_the_partition_comes_back_as_it_was(
    cluster: Cluster, operator: Operator
) -> None:
    """TestDeletingPodForRollingUpdatePartition: it was held during the update."""
    held: JSON = {"metadata": {"finalizers": ["example.com/hold"]}}
    async with manager(cluster):
        await operator.make(replicas=2, updateStrategy=rolling(1), **PARALLEL)
        await settle(2)
        await operator.all_ready()
        await operator.patch(PODS, "web-0", held)
        await operator.use("app:v2")
        await settle(2)
        await operator.all_ready()
        await operator.end_pod("web-0", "Failed")
        await operator.client.delete(PODS, "default", "web-0")
        await settle(5)
        assert (await operator.stateful_set()).status.ready_replicas == 1
        await operator.patch(PODS, "web-0", {"metadata": {"finalizers": None}})
        await settle(2)
        await operator.all_ready()
        assert await operator.images() == {"web-0": "app:v1*", "web-1": "app:v2*"}


@pytest.mark.parametrize("policy", ["whenDeleted", "whenScaled"])
async def test_the_claim_of_an_adopted_pod_is_deleted_by_the_policy(
    cluster: Cluster, operator: Operator, policy: str
) -> None:
    """The third pod loses its owner just before the set goes or shrinks."""
    async with cluster.nodes(binds_claims=True), manager(cluster):
        await operator.make(
            volumeClaimTemplates=[claim_template()],
            persistentVolumeClaimRetentionPolicy={policy: "Delete"},
        )
        await settle(60)
        owned = ["StatefulSet"] if policy == "whenDeleted" else []
        claims = ("data-web-0", "data-web-1", "data-web-2")
        assert await operator.owners_of_claims() == dict.fromkeys(claims, owned)
        await operator.patch(PODS, "web-2", {"metadata": {"ownerReferences": None}})
        if policy == "whenDeleted":
            await operator.client.delete(STATEFUL_SETS, "default", "web")
        else:
            await operator.edit(replicas=1)
        await settle(120)
        left = [] if policy == "whenDeleted" else ["data-web-0"]
        assert await operator.staying_claims() == left


async def test_a_new_set_takes_over_what_an_orphaned_one_left(
    cluster: Cluster, operator: Operator
) -> None:
    """Pods, claims and revisions; no pod is replaced."""
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    spec: JSON = {
        "replicas": 2,
        "volumeClaimTemplates": [claim_template()],
        "persistentVolumeClaimRetentionPolicy": policy,
    }
    async with cluster.nodes(binds_claims=True), manager(cluster):
        await operator.make(**spec)
        await settle(60)
        before = await operator.uids()
        orphan = DeleteOptions(propagation_policy=PropagationPolicy.ORPHAN)
        await operator.client.delete(STATEFUL_SETS, "default", "web", orphan)
        await settle(30)
        await operator.make(**spec)
        await settle(60)
        assert await operator.uids() == before
        assert await operator.owners_of_claims() == {
            f"data-web-{each}": ["StatefulSet"] for each in range(2)
        }
        status = (await operator.stateful_set()).status
        assert (status.current_replicas, status.updated_replicas) == (2, 2)


async def test_a_claim_that_loses_its_former_owner_is_used(
    cluster: Cluster, operator: Operator
) -> None:
    """The garbage collector removes an owner that is gone, and keeps the claim.

    It does so if the claim has another owner that exists.
    """
    boss = {"metadata": {"name": "boss"}, "spec": template()["spec"]}
    await operator.create(PODS, boss)
    uid = (await operator.client.get(PODS, "default", "boss")).metadata.uid
    kept = claim_template()
    live = owner("Pod", "boss", uid, controller=False)
    former = owner("StatefulSet", "web", "former")
    kept["metadata"] = {"name": "data-web-0", "ownerReferences": [live, former]}
    await operator.create(CLAIMS, kept)
    async with manager(cluster):
        await operator.make(replicas=1, volumeClaimTemplates=[claim_template()])
        await settle(120)
        assert await operator.names() == ["boss", "web-0"]
        assert await operator.owners_of_claims() == {"data-web-0": ["Pod"]}


async def test_a_claim_of_another_controller_is_reported_with_the_pod(
    cluster: Cluster, operator: Operator
) -> None:
    """As upstream does when it creates the pod; the claim is not changed."""
    taken = claim_template()
    taken["metadata"] = {
        "name": "data-web-0",
        "ownerReferences": [owner("Database", "db", "db")],
    }
    async with manager(cluster):
        await operator.create(CLAIMS, taken)
        await operator.make(
            replicas=1,
            volumeClaimTemplates=[claim_template()],
            persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"},
        )
        await settle(5)
        assert await operator.names() == ["web-0"]
        assert await operator.owners_of_claims() == {"data-web-0": ["Database"]}
    (message,) = await operator.messages("ConflictingController")
    assert message.startswith("PersistentVolumeClaim data-web-0 has a conflicting ")


async def test_a_set_goes_in_the_foreground_while_it_is_scaled_down(
    cluster: Cluster, operator: Operator
) -> None:
    """A condemned pod already owns its claim, and each kept the other."""
    ours = config()
    names = (*ours.generic.controllers, "persistentvolumeclaim-protection-controller")
    generic = replace(ours.generic, controllers=names)
    async with (
        cluster.nodes(binds_claims=True),
        cluster.manager(replace(ours, generic=generic)),
    ):
        await operator.make(
            replicas=3,
            volumeClaimTemplates=[claim_template()],
            persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"},
        )
        await settle(60)
        await operator.edit(replicas=1)
        await settle(1)
        assert (await operator.owners_of_claims())["data-web-1"] == ["Pod"]
        pod = await operator.client.get(PODS, "default", "web-1")
        assert not is_deleting(pod)
        foreground = DeleteOptions(propagation_policy=PropagationPolicy.FOREGROUND)
        await operator.client.delete(STATEFUL_SETS, "default", "web", foreground)
        await settle(120)
        assert await operator.pods() == []
        assert await operator.claims() == ["data-web-0"]


@pytest.mark.parametrize("templates", [[], [claim_template()]])
async def test_nothing_is_retried_in_a_namespace_that_is_being_deleted(
    cluster: Cluster, operator: Operator, templates: list[JSON]
) -> None:
    """Neither a pod nor a claim can be created there."""
    await operator.create(NAMESPACES, {"metadata": {"name": "shop"}})
    subject = stateful_set_json(replicas=1, volumeClaimTemplates=templates)
    subject["metadata"]["namespace"] = "shop"
    async with manager(cluster) as recording:
        await operator.create(STATEFUL_SETS, subject)
        await settle(5)
        await operator.client.delete(NAMESPACES, "", "shop")
        for claim in await operator.claims():
            free: JSON = {"metadata": {"finalizers": None}}
            await operator.client.patch(CLAIMS, "shop", claim, free)
            await operator.client.delete(CLAIMS, "shop", claim)
        recording.writes.clear()
        await operator.client.delete(PODS, "shop", "web-0")
        await settle(600)
    refused = [each.path for each in recording.writes if each.method == "POST"]
    kind = "persistentvolumeclaims" if templates else "pods"
    assert set(refused) == {f"/api/v1/namespaces/shop/{kind}"}
    assert len(refused) <= 3  # one for each event of the pod and the claim


LOST: Final = "the answer is lost"
ANSWERS: Final = {
    "forbidden": (403, "Forbidden"),
    "not found": (404, "NotFound"),
    "conflict": (409, "Conflict"),
    "invalid": (422, "Invalid"),
    "a webhook fails": (500, "InternalError"),
    "timeout": (504, "Timeout"),
}


class Faulty(RecordingTransport):
    """Fails the first request of each verb for each resource."""

    def __init__(self, cluster: Cluster, fault: str) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self._fault = fault
        self.failed: set[tuple[str, str]] = set()

    async def request(self, request: Request) -> Response:
        kind = (request.method, _resource(request))
        is_about_sets = "/namespaces/default/" in request.path
        if not is_about_sets or kind[1] == "events" or kind in self.failed:
            return await super().request(request)
        self.failed.add(kind)
        if self._fault == LOST:
            await super().request(request)
            raise TransportError(self._fault)
        code, reason = ANSWERS[self._fault]
        status = {"kind": "Status", "code": code, "reason": reason, "message": "no"}
        return Response(code, {}, json.dumps(status).encode())


def _resource(request: Request) -> str:
    parts = request.path.partition("/namespaces/default/")[2].split("/")
    return "/".join((parts[0], *parts[2:]))


@pytest.mark.parametrize("fault", [*ANSWERS, LOST])
async def test_a_set_survives_the_failure_of_each_request(
    cluster: Cluster, fault: str
) -> None:
    """It is created, updated, repaired and scaled down all the same."""
    user, transport = Operator(cluster), Faulty(cluster, fault)
    async with cluster.nodes(binds_claims=True), cluster.manager(config(), transport):
        await user.make(
            replicas=2,
            volumeClaimTemplates=[claim_template()],
            persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"},
        )
        await settle(120)
        await user.use("app:v2")
        await settle(120)
        assert await user.images() == {"web-0": "app:v2*", "web-1": "app:v2*"}
        await user.edit(replicas=1)
        await settle(120)
        assert await user.images() == {"web-0": "app:v2*"}
        assert await user.staying_claims() == ["data-web-0"]
        status = (await user.stateful_set()).status
    sizes = (status.replicas, status.available_replicas, status.updated_replicas)
    assert (sizes, status.current_revision) == ((1, 1, 1), status.update_revision)
    assert transport.failed >= {
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


def config_with(**gates: bool) -> Config:
    config = make_config(controllers=("statefulset-controller",))
    return replace(config, features=FeatureGates(gates))


@pytest.mark.parametrize(("gate", "answers"), [(True, [200]), (False, [200, 409])])
async def test_a_set_waits_for_its_own_writes_if_the_gate_says_so(
    cluster: Cluster, user: User, gate: bool, answers: list[int]
) -> None:
    """Without it, a sync on the stale cache writes a status that is refused."""
    free = hold(cluster, "statefulsets")
    config = config_with(StaleControllerConsistencyStatefulSet=gate)
    async with cluster.manager(config) as recording:
        obj = stateful_set_json(replicas=2, podManagementPolicy="Parallel")
        await user.create(STATEFUL_SETS, obj)
        await settle()
        recording.writes.clear()
        free.clear()
        for pod in await user.pods():
            await user.make_ready(pod.metadata.name)
            await settle(2)
        assert {each.path.rpartition("/")[2] for each in recording.writes} == {"status"}
        assert [each.status for each in recording.writes] == answers
        free.set()
        await settle()
        subject = await user.client.get(STATEFUL_SETS, "default", "web")
        assert subject.status.ready_replicas == 2


@pytest.mark.parametrize("strategy", ["RollingUpdate", "OnDelete"])
@pytest.mark.parametrize(("gate", "shown"), [(True, (1.0, 2.0)), (False, (None, None))])
async def test_the_metrics_of_unavailable_pods_come_with_their_gate(
    cluster: Cluster, user: User, gate: bool, shown: tuple[Any, Any], strategy: str
) -> None:
    """The allowed and the present number; no values once the set is gone."""
    config = config_with(MaxUnavailableStatefulSet=gate)
    connections = Connections(cluster.transport, root_ca="PEM")
    labels = {
        "statefulset_namespace": "default",
        "statefulset_name": "web",
        "pod_management_policy": "OrderedReady",
    }

    def values(manager: ControllerManager) -> tuple[Any, ...]:
        prefix = "statefulset_controller_statefulset"
        return tuple(
            manager._registry.get_sample_value(f"{prefix}_{name}", labels)
            for name in ("max_unavailable", "unavailable_replicas")
        )

    async with run_manager(connections, cluster.clock, cluster.rng, config) as manager:
        body = stateful_set_json(replicas=2, updateStrategy={"type": strategy})
        await user.create(STATEFUL_SETS, body)
        await settle()
        assert values(manager) == shown
        await user.client.delete(STATEFUL_SETS, "default", "web")
        await settle()
        assert values(manager) == (None, None)


@pytest.mark.parametrize(("gate", "count"), [(True, 1), (False, 2)])
async def test_a_new_default_is_no_change_of_the_template_if_the_gate_says_so(
    cluster: Cluster, user: User, gate: bool, count: int
) -> None:
    """The stored revision lacks what an API server fills in since its upgrade."""
    config = config_with(StatefulSetSemanticRevisionComparison=gate)
    async with cluster.manager(config):
        await user.create(STATEFUL_SETS, stateful_set_json(replicas=2))
        await settle()
    (written,) = (await user.client.list_page(CONTROLLER_REVISIONS)).items
    data = msgspec.json.decode(written.data)
    del data["spec"]["template"]["spec"]["dnsPolicy"]
    older = msgspec.structs.replace(
        written,
        metadata=msgspec.structs.replace(
            written.metadata, uid="", resource_version="", creation_timestamp=None
        ),
        data=msgspec.Raw(msgspec.json.encode(data)),
    )
    name = written.metadata.name
    await user.client.delete(CONTROLLER_REVISIONS, "default", name)
    await user.client.create(CONTROLLER_REVISIONS, older)
    async with cluster.manager(config):
        await settle()
        stored = (await user.client.list_page(CONTROLLER_REVISIONS)).items
        subject = await user.client.get(STATEFUL_SETS, "default", "web")
    assert len(stored) == count
    assert (subject.status.update_revision == name) is gate
