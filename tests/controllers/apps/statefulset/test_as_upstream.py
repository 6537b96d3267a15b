"""The situations of upstream's e2e and integration tests of stateful sets.

Upstream: test/e2e/apps/statefulset.go, test/integration/statefulset.
"""

from dataclasses import replace
from typing import Any

import pytest

from controller_manager.api.apps.v1 import STATEFUL_SETS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import NAMESPACES, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import PartialObject, is_deleting, labels_of
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from tests.clusters import Cluster
from tests.controllers.apps.statefulset.builders import (
    claim_template,
    owner,
    rolling,
    stateful_set_json,
)
from tests.controllers.apps.statefulset.test_on_cluster import Sets, config, manager
from tests.controllers.builders import template
from tests.controllers.user import settle

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


async def test_parallel_scaling_does_not_halt(
    cluster: Cluster, operator: Operator
) -> None:
    """Conformance: burst scaling."""
    async with manager(cluster):
        await operator.make(replicas=1, **PARALLEL)
        await settle(2)
        await operator.all_ready()
        await operator.break_pod("web-0")
        await operator.edit(replicas=3)
        await settle(5)
        assert await operator.names() == ["web-0", "web-1", "web-2"]
        await operator.edit(replicas=0)
        await settle(5)
        assert await operator.names() == []


async def test_an_update_and_its_rollback_wait_for_a_broken_pod(
    cluster: Cluster, operator: Operator
) -> None:
    """Conformance: rolling updates and roll backs; the old revision is used again."""
    async with manager(cluster):
        await operator.make()
        await settle(2)
        await operator.all_ready()
        first = (await operator.stateful_set()).status.current_revision
        for image in ("app:v2", "app:v1"):
            before = await operator.images()
            await operator.break_pod("web-1")
            await operator.use(image)
            await settle(60)
            assert set(await operator.images()) == set(before)
            status = (await operator.stateful_set()).status
            assert status.current_revision != status.update_revision
            await operator.make_ready("web-1")
            await settle(2)
            await operator.all_ready()
            assert set((await operator.images()).values()) == {f"{image}*"}
            status = (await operator.stateful_set()).status
            assert status.current_revision == status.update_revision
        assert status.update_revision == first


async def test_a_canary_keeps_its_partition_when_pods_are_deleted(
    cluster: Cluster, operator: Operator
) -> None:
    """Conformance: canary updates and phased rolling updates."""
    async with manager(cluster):
        await operator.make(updateStrategy=rolling(3))
        await settle(2)
        await operator.all_ready()
        await operator.use("app:v2")
        await settle(10)
        assert set((await operator.images()).values()) == {"app:v1*"}
        status = (await operator.stateful_set()).status
        assert (status.current_replicas, status.updated_replicas) == (3, 0)
        await operator.edit(updateStrategy=rolling(2))
        await settle(2)
        await operator.all_ready()
        canary = {"web-0": "app:v1*", "web-1": "app:v1*", "web-2": "app:v2*"}
        assert await operator.images() == canary
        for name in ("web-0", "web-2"):
            await operator.client.delete(PODS, "default", name)
        await settle(2)
        await operator.all_ready()
        assert await operator.images() == canary
        status = (await operator.stateful_set()).status
        assert (status.current_replicas, status.updated_replicas) == (2, 1)
        for partition in (1, 0):
            await operator.edit(updateStrategy=rolling(partition))
            await settle(2)
            await operator.all_ready()
        assert set((await operator.images()).values()) == {"app:v2*"}
        status = (await operator.stateful_set()).status
        assert status.current_revision == status.update_revision


async def test_on_delete_pods_change_when_a_user_deletes_them(
    cluster: Cluster, operator: Operator
) -> None:
    """Conformance: legacy replacement; the current revision stays behind."""
    async with manager(cluster):
        await operator.make(updateStrategy={"type": "OnDelete"})
        await settle(2)
        await operator.all_ready()
        first = (await operator.stateful_set()).status.current_revision
        await operator.client.delete(PODS, "default", "web-0")
        await settle(2)
        await operator.all_ready()
        assert set((await operator.images()).values()) == {"app:v1*"}
        await operator.use("app:v2")
        await settle(5)
        for name in ("web-0", "web-1", "web-2"):
            await operator.client.delete(PODS, "default", name)
        await settle(2)
        await operator.all_ready()
        assert set((await operator.images()).values()) == {"app:v2*"}
        status = (await operator.stateful_set()).status
        assert (status.current_revision, status.updated_replicas) == (first, 3)


async def test_an_orphan_is_adopted_again_and_a_stranger_is_released(
    cluster: Cluster, operator: Operator
) -> None:
    """Also if a user takes all labels away and gives them back."""
    async with manager(cluster):
        await operator.make(replicas=1)
        await settle(2)
        await operator.all_ready()
        (pod,) = await operator.pods()
        labels = dict(labels_of(pod))
        none: JSON = {"metadata": {"ownerReferences": None}}
        await operator.patch(PODS, "web-0", none)
        await settle(2)
        (pod,) = await operator.pods()
        assert kinds_of_owners(pod) == ["StatefulSet"]
        await operator.patch(PODS, "web-0", {"metadata": {"labels": None}})
        await settle(2)
        (pod,) = await operator.pods()
        assert kinds_of_owners(pod) == []
        await operator.patch(PODS, "web-0", {"metadata": {"labels": labels}})
        await settle(2)
        (pod,) = await operator.pods()
        assert kinds_of_owners(pod) == ["StatefulSet"]


@pytest.mark.parametrize(
    ("start", "changed", "expected"),
    [
        (None, {"ordinals": {"start": 2}, "replicas": 3}, ["web-2", "web-3", "web-4"]),
        (2, {"ordinals": {"start": 4}}, ["web-4", "web-5"]),
        (3, {"ordinals": {"start": 2}}, ["web-2", "web-3"]),
        (3, {"ordinals": None}, ["web-0", "web-1"]),
    ],
)
async def test_the_ordinals_of_a_set_can_be_moved(
    cluster: Cluster,
    operator: Operator,
    start: int | None,
    changed: JSON,
    expected: list[str],
) -> None:
    """Set, increased, decreased and removed."""
    given: JSON = {} if start is None else {"ordinals": {"start": start}}
    async with manager(cluster):
        await operator.make(replicas=2, **given)
        await settle(2)
        await operator.all_ready()
        await operator.edit(**changed)
        await settle(2)
        await operator.all_ready()
        assert await operator.names() == expected
        status = (await operator.stateful_set()).status
        assert (status.replicas, status.ready_replicas) == (len(expected),) * 2


async def test_ended_pods_are_replaced_and_a_terminating_one_is_waited_for(
    cluster: Cluster, operator: Operator
) -> None:
    """TestDeletingAndTerminatingPods."""
    held: JSON = {"metadata": {"finalizers": ["example.com/hold"]}}
    async with manager(cluster):
        await operator.make(**PARALLEL)
        await settle(2)
        before = await operator.uids()
        await operator.patch(PODS, "web-0", held)
        await operator.client.delete(PODS, "default", "web-0")
        await operator.end_pod("web-1", "Failed")
        await operator.end_pod("web-2", "Succeeded")
        await settle(5)
        after = await operator.uids()
        kept = {name for name in before if after.get(name) == before[name]}
        assert (set(after), kept) == (set(before), {"web-0"})
        await operator.patch(PODS, "web-0", {"metadata": {"finalizers": None}})
        await settle(5)
        assert (await operator.uids())["web-0"] not in ("", before["web-0"])


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
