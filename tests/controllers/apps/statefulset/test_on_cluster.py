"""Stateful sets on a cluster in memory, beyond the recorded scenarios."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.apps.v1 import (
    STATEFUL_SETS,
    StatefulSet,
)
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import is_deleting
from controller_manager.cli.flags import make_config as config_from_flags
from controller_manager.client.rest.transport import Request
from controller_manager.controllers.apps.statefulset.controller import (
    StatefulSetMetrics,
)
from controller_manager.controllers.apps.statefulset.replicas import FoundPods
from controller_manager.options.config import Config
from tests.clusters import Cluster, RecordingTransport, make_config
from tests.controllers.apps.statefulset.builders import (
    claim_template,
    stateful_set_json,
)
from tests.controllers.builders import template
from tests.controllers.responses import is_creation, refusing
from tests.controllers.user import User, settle
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime

POLICIES = ["OrderedReady", pytest.param("Parallel", marks=pytest.mark.slow)]

BROKEN = "broken:v1"
STATUS = "/apis/apps/v1/namespaces/default/statefulsets/web/status"


def config(**flags: str) -> Config:
    """Return a config of the stateful set controller and the garbage collector."""
    names = ("statefulset-controller", "garbage-collector-controller")
    ours = make_config(controllers=names)
    given = {name.replace("_", "-"): [value] for name, value in flags.items()}
    made = config_from_flags(given, [])
    return replace(made, client=ours.client, generic=ours.generic, serving=ours.serving)


@asynccontextmanager
async def manager(
    cluster: Cluster, **flags: str
) -> AsyncGenerator[RecordingTransport, None]:
    async with cluster.manager(config(**flags)) as recording:
        yield recording


class Sets(User):
    """A user of stateful sets, who plays the kubelet, too."""

    async def make(self, replicas: int = 3, image: str = "app:v1", **spec: Any) -> None:
        spec["template"] = template(image)
        await self.create(STATEFUL_SETS, stateful_set_json(replicas=replicas, **spec))

    async def stateful_set(self) -> StatefulSet:
        return await self.client.get(STATEFUL_SETS, "default", "web")

    async def edit(self, **spec: Any) -> None:
        await self.patch(STATEFUL_SETS, "web", {"spec": spec})

    async def use(self, image: str) -> None:
        containers = [{"name": "c", "image": image}]
        await self.edit(template={"spec": {"containers": containers}})

    async def images(self) -> dict[str, str]:
        """Return the image of each pod, with a ``*`` if the pod is ready."""
        stored = [each.obj for each in self.cluster.server.storage.collection("pods")]
        by_name = {each["metadata"]["name"]: _image(each) for each in stored}
        return dict(sorted(by_name.items()))

    async def uids(self) -> dict[str, str]:
        pods = await self.pods()
        return dict(sorted((each.metadata.name, each.metadata.uid) for each in pods))

    async def messages(self, reason: str) -> list[str]:
        return sorted({each.message for each in await self.events(reason)})

    async def claims(self) -> list[str]:
        """Return the claims that are not being deleted; a finalizer holds the rest."""
        page = await self.client.list_page(CLAIMS)
        names = [each.metadata.name for each in page.items if not is_deleting(each)]
        return sorted(names)

    async def owners_of_claims(self) -> dict[str, list[str]]:
        page = await self.client.list_page(CLAIMS)
        return {
            each.metadata.name: [
                owner.kind for owner in each.metadata.owner_references or ()
            ]
            for each in page.items
        }


def _image(pod: JSON) -> str:
    conditions = pod["status"].get("conditions", [])
    ready = any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)
    return str(pod["spec"]["containers"][0]["image"]) + ("*" if ready else "")


@pytest.fixture
def sets(cluster: Cluster) -> Sets:
    return Sets(cluster)


def pod_json(name: str, app: str = "web") -> JSON:
    metadata = {"name": name, "labels": {"app": app}}
    return {"metadata": metadata, "spec": template()["spec"]}


async def test_an_unseen_deletion_is_done_once(cluster: Cluster, sets: Sets) -> None:
    """Otherwise each sync would delete it again."""
    watches = SilentWatches(cluster.transport)
    async with cluster.nodes(), cluster.manager(config(), watches) as recording:
        await sets.make(replicas=2, podManagementPolicy="Parallel")
        await settle(60)
        watches.silence("pods")
        for version in range(2, 5):
            await sets.use(f"app:v{version}")
            await settle(60)
        deleted = [each.path for each in recording.writes if each.method == "DELETE"]
        assert deleted == ["/api/v1/namespaces/default/pods/web-1"]
        watches.speak("pods")
        await settle(120)
        assert await sets.images() == {"web-0": "app:v4*", "web-1": "app:v4*"}


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_repaired_template_is_rolled_out(
    cluster: Cluster, sets: Sets, policy: str
) -> None:
    """kubernetes#67250: upstream waits for the broken pod with OrderedReady.

    Here it is replaced once its image could not be pulled for ten minutes.
    """
    async with cluster.nodes(), manager(cluster):
        await sets.make(podManagementPolicy=policy)
        await settle(60)
        await sets.use(BROKEN)
        await settle(60)
        good = {f"web-{each}": "app:v1*" for each in range(2)}
        assert await sets.images() == {**good, "web-2": BROKEN}
        await sets.use("app:v1")
        await settle(500)
        after = "app:v1*" if policy == "Parallel" else BROKEN
        assert await sets.images() == {**good, "web-2": after}
        await settle(120)
        assert await sets.images() == {**good, "web-2": "app:v1*"}
        await sets.use(BROKEN)
        await settle(60)
        await sets.use("app:v3")
        await settle(700)
        assert await sets.images() == {f"web-{each}": "app:v3*" for each in range(3)}
        status = (await sets.stateful_set()).status
        assert status.current_revision == status.update_revision


async def test_a_name_in_use_is_reported(cluster: Cluster, sets: Sets) -> None:
    """Upstream tries again and again, without an event."""
    await sets.create(PODS, pod_json("web-0", "other"))
    async with manager(cluster) as recording:
        await sets.make(replicas=1)
        await settle(60)
        (message,) = await sets.messages("FailedCreate")
        assert message == (
            "Create Pod web-0 in StatefulSet web failed error: "
            'pods "web-0" already exists'
        )
        created = [each for each in recording.writes if each.method == "POST"]
        assert [each.path.rpartition("/")[2] for each in created] == [
            "controllerrevisions"
        ]
        await sets.client.delete(PODS, "default", "web-0")
        await settle(1)
        (pod,) = await sets.pods()
        assert pod.metadata.owner_references is not None


async def test_another_number_is_not_adopted(cluster: Cluster, sets: Sets) -> None:
    """Upstream would take it for web-1."""
    for name in ("web-01", "web-x", "other-0"):
        await sets.create(PODS, pod_json(name))
    async with manager(cluster):
        await sets.make(replicas=2, podManagementPolicy="Parallel")
        await settle(5)
    owned = [
        each.metadata.name
        for each in await sets.pods()
        if each.metadata.owner_references
    ]
    assert sorted(owned) == ["web-0", "web-1"]


async def test_the_next_sync_adopts_a_late_pod(cluster: Cluster, sets: Sets) -> None:
    """An event would report a pod of another owner as a name in use."""
    finished = []

    find = FoundPods.among

    def find_later(*arguments: Any) -> FoundPods:
        found = find(*arguments)
        finished.append(len(found.named))
        if len(finished) > 1:
            return found
        return FoundPods(found.stateful_set, found.selector, (), (), frozenset())

    await sets.create(PODS, pod_json("web-0"))
    with mock.patch.object(FoundPods, "among", find_later):
        async with manager(cluster):
            await sets.make(replicas=1)
            await settle(5)
    (pod,) = await sets.pods()
    assert [each.name for each in pod.metadata.owner_references or ()] == ["web"]
    assert finished[:2] == [1, 1]
    assert await sets.messages("FailedCreate") == []


async def test_a_pending_pods_claim_comes_again(cluster: Cluster, sets: Sets) -> None:
    """Without an event of the pod; upstream waits for one."""
    async with manager(cluster):
        await sets.make(replicas=1, volumeClaimTemplates=[claim_template()])
        await settle(5)
        await sets.patch(CLAIMS, "data-web-0", {"metadata": {"finalizers": None}})
        await sets.client.delete(CLAIMS, "default", "data-web-0")
        await settle(1)
        assert await sets.claims() == []
        await settle(10)
        assert await sets.claims() == ["data-web-0"]


async def test_unchangeable_claims_are_reported(cluster: Cluster, sets: Sets) -> None:
    """A quota or a webhook may refuse the change; the pod's own events say nothing."""

    def changes_claim(request: Request) -> bool:
        return request.method == "PUT" and "/persistentvolumeclaims/" in request.path

    transport = refusing(cluster, changes_claim, 403, "Forbidden")
    async with cluster.manager(config(), transport):
        await sets.make(replicas=1, volumeClaimTemplates=[claim_template()])
        await settle(5)
        policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
        await sets.edit(persistentVolumeClaimRetentionPolicy=policy)
        await settle(1)
    (message,) = await sets.messages("FailedUpdate")
    assert message == (
        "Update Pod web-0 in StatefulSet web failed error: could not update claim "
        "data-web-0 for delete policy ownerRefs: refused: Forbidden"
    )


async def test_a_failure_ends_the_sync_last(cluster: Cluster, sets: Sets) -> None:
    """The status shows what is known; the key is retried."""
    transport = refusing(cluster, is_creation, 403, "Forbidden")
    async with cluster.manager(config(), transport) as recording:
        await sets.make(replicas=1)
        await settle(10)
    assert await sets.messages("FailedCreate") == [
        "Create Pod web-0 in StatefulSet web failed error: refused: Forbidden"
    ]
    assert len([each for each in transport.requests if is_creation(each)]) > 2
    stored = await sets.stateful_set()
    assert stored.status.observed_generation == stored.metadata.generation
    assert stored.status.update_revision
    assert [each.path for each in recording.writes].count(STATUS) == 1


def test_the_metrics_of_a_set_that_is_gone_are_gone() -> None:
    registry = CollectorRegistry()
    metrics = StatefulSetMetrics(registry)
    name = "statefulset_controller_statefulset_max_unavailable"
    labels = {"statefulset_namespace": "default", "statefulset_name": "web"}
    metrics.availability("default", "web", "Parallel", 2, 0)
    metrics.availability("default", "web", "OrderedReady", 1, 0)

    def shown(policy: str) -> float | None:
        given = {**labels, "pod_management_policy": policy}
        return registry.get_sample_value(name, given)

    assert (shown("Parallel"), shown("OrderedReady")) == (None, 1)
    for _ in range(2):
        metrics.forget("default", "web")
    assert shown("OrderedReady") is None
