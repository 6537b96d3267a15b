"""Deleted claims stay while pods use them, in memory and on virtual time."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import DeleteOptions, PatchType
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.storage.claimprotection.controller import FINALIZER
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN, Cluster, RecordingTransport, make_config

pytestmark = pytest.mark.looptime

CONFIG = make_config(controllers=("pvc-protection",))


def add_pod(cluster: Cluster, name: str = "web", **spec: Any) -> None:
    """Create a pod of the claim "data"."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    containers = [{"name": "c", "image": "app:v1"}]
    cluster.add(
        "Pod", name, spec={"containers": containers, "volumes": [volume], **spec}
    )


def add_claim(cluster: Cluster, name: str = "data", **metadata: Any) -> JSON:
    """Create a claim."""
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources}
    kind = cluster.server.catalogue.of("v1", "PersistentVolumeClaim")
    assert kind is not None
    claim = {"metadata": {"name": name, **metadata}, "spec": spec}
    namespace = metadata.get("namespace", "default")
    return cluster.server.objects.create(kind, namespace, claim).obj


async def claims(cluster: Cluster) -> dict[str, tuple[str, ...] | None]:
    """Return the finalizers of all claims."""
    await asyncio.sleep(1)
    page = await cluster.client.list_page(CLAIMS)
    return {each.metadata.name: each.metadata.finalizers for each in page.items}


async def delete_claim(cluster: Cluster, name: str = "data") -> None:
    """Delete a claim."""
    await cluster.client.delete(CLAIMS, "default", name)


async def delete_pod(cluster: Cluster, name: str = "web") -> None:
    """Delete a pod at once."""
    options = DeleteOptions(grace_period_seconds=0)
    await cluster.client.delete(PODS, "default", name, options)


async def strip(cluster: Cluster, name: str = "data") -> None:
    """Remove all finalizers of a claim."""
    patch = {"metadata": {"finalizers": None}}
    await cluster.client.patch(CLAIMS, "default", name, patch, PatchType.MERGE)


async def test_a_deleted_claim_goes_with_its_last_pod() -> None:
    """The role of upstream suffices; the rest of the claim stays as it is."""
    cluster = Cluster(rbac=True)
    add_claim(cluster, finalizers=["example.com/hold"], annotations={"a": "b"})
    add_pod(cluster, "one", nodeName="n")
    add_pod(cluster, "two", nodeName="n")
    async with cluster.confined_manager(CONFIG) as recording:
        await delete_claim(cluster)
        await delete_pod(cluster, "one")
        kept = await claims(cluster)
        await delete_pod(cluster, "two")
        released = await claims(cluster)
    assert kept == {"data": ("example.com/hold", FINALIZER)}
    assert released == {"data": ("example.com/hold",)}
    (write,) = recording.writes
    assert (write.method, write.status) == ("PUT", 200)
    stored = await cluster.client.get(CLAIMS, "default", "data")
    assert stored.metadata.annotations == {"a": "b"}


async def test_a_claim_that_only_pods_without_a_node_name_goes_at_once(
    cluster: Cluster,
) -> None:
    """No kubelet would start such a pod."""
    add_claim(cluster)
    add_pod(cluster)
    async with cluster.manager(CONFIG):
        await delete_claim(cluster)
        assert await claims(cluster) == {}


async def test_the_claim_of_an_ephemeral_volume_goes_when_its_pod_is_done(
    cluster: Cluster,
) -> None:
    """The pod may wait for its claim with a finalizer of its own."""
    volume = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    kind = cluster.server.catalogue.of("v1", "Pod")
    assert kind is not None
    pod = {
        "metadata": {"name": "web", "finalizers": ["example.com/claim"]},
        "spec": {
            "containers": [{"name": "c", "image": "app:v1"}],
            "nodeName": "n",
            "terminationGracePeriodSeconds": 30,
            "volumes": [volume],
        },
    }
    created = cluster.server.objects.create(kind, "default", pod).obj
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "web",
        "uid": created["metadata"]["uid"],
        "controller": True,
    }
    add_claim(cluster, "web-data", ownerReferences=[owner])
    async with cluster.manager(CONFIG):
        await cluster.client.delete(PODS, "default", "web")
        await delete_claim(cluster, "web-data")
        kept = await claims(cluster)
        await delete_pod(cluster)
        released = await claims(cluster)
    assert (kept, released) == ({"web-data": (FINALIZER,)}, {})


async def test_a_claim_without_the_finalizer_gets_it(cluster: Cluster) -> None:
    """It is older than the controller, or a user has removed the finalizer."""
    add_claim(cluster)
    await strip(cluster)
    add_claim(cluster, "other")
    async with cluster.manager(CONFIG) as recording:
        before = await claims(cluster)
        await strip(cluster, "other")
        after = await claims(cluster)
    assert before == after == {"data": (FINALIZER,), "other": (FINALIZER,)}
    assert [each.method for each in recording.writes] == ["PUT", "PUT"]


async def test_a_claim_of_the_same_name_is_another_claim(cluster: Cluster) -> None:
    """The decision about the old claim does not apply to the new one."""
    add_claim(cluster)
    transport = Replacing(cluster)
    async with cluster.manager(CONFIG, transport):
        await delete_claim(cluster)
        assert await claims(cluster) == {"data": (FINALIZER,)}
    assert transport.has_replaced


class Replacing(RecordingTransport):
    """Replaces the claim "data" right before it is read."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self._cluster = cluster
        self.has_replaced = False

    async def request(self, request: Request) -> Response:
        named = request.path.endswith("/persistentvolumeclaims/data")
        if named and not self.has_replaced:
            self.has_replaced = True
            await strip(self._cluster)
            add_claim(self._cluster)
        return await super().request(request)


async def test_a_claim_that_is_deleted_right_before_it_is_read_keeps_its_finalizer(
    cluster: Cluster,
) -> None:
    """The cached claim lacks the finalizer, so its users were not searched."""
    add_claim(cluster)
    await strip(cluster)
    add_pod(cluster, nodeName="n")
    transport = Deleting(cluster)
    async with cluster.manager(CONFIG, transport):
        kept = await claims(cluster)
        await delete_pod(cluster)
        await asyncio.sleep(1)
        released = await claims(cluster)
    assert transport.has_deleted
    assert (kept, released) == ({"data": (FINALIZER,)}, {})


class Deleting(RecordingTransport):
    """Protects and deletes the claim "data" right before it is read."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self._cluster = cluster
        self.has_deleted = False

    async def request(self, request: Request) -> Response:
        named = request.path.endswith("/persistentvolumeclaims/data")
        if named and request.method == "GET" and not self.has_deleted:
            self.has_deleted = True
            patch = {"metadata": {"finalizers": [FINALIZER]}}
            client = self._cluster.client
            await client.patch(CLAIMS, "default", "data", patch, PatchType.MERGE)
            await delete_claim(self._cluster)
        return await super().request(request)


class Lists(RecordingTransport):
    """Counts the lists of the pods of a namespace."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self.count = 0

    async def request(self, request: Request) -> Response:
        path = request.path
        self.count += "/namespaces/" in path and path.endswith("/pods")
        return await super().request(request)


async def test_claims_that_are_deleted_together_share_a_list(cluster: Cluster) -> None:
    """The pods of a namespace may be many."""
    names = [f"data-{number}" for number in range(50)]
    for name in names:
        add_claim(cluster, name)
    add_pod(cluster, nodeName="n")
    add_claim(cluster)
    transport = Lists(cluster)
    await asyncio.gather(*(delete_claim(cluster, each) for each in (*names, "data")))
    async with cluster.manager(CONFIG, transport) as recording:
        assert await claims(cluster) == {"data": (FINALIZER,)}
        assert (transport.count, len(recording.writes)) == (1, 50)
        add_claim(cluster, "later")
        await delete_claim(cluster, "later")
        assert await claims(cluster) == {"data": (FINALIZER,)}
    assert transport.count == 2


@pytest.mark.parametrize("ahead", ["persistentvolumeclaims", "pods"])
async def test_a_claim_is_released_if_resource_versions_of_pods_are_far_ahead(
    cluster: Cluster, ahead: str
) -> None:
    """Claims and pods may each be in an etcd of their own."""
    cluster.server.storage.collection(ahead).separate(1_000_000)
    add_claim(cluster)
    add_pod(cluster, nodeName="n")
    async with cluster.manager(CONFIG):
        await delete_claim(cluster)
        kept = await claims(cluster)
        await delete_pod(cluster)
        assert (kept, await claims(cluster)) == ({"data": (FINALIZER,)}, {})


async def test_a_pod_that_the_cache_does_not_show_keeps_its_claim(
    cluster: Cluster,
) -> None:
    """The pods are read from the API server before the finalizer is removed."""
    add_claim(cluster)
    transport = Unseen(cluster)
    async with cluster.manager(CONFIG, transport):
        await delete_claim(cluster)
        kept = await claims(cluster)
        await delete_pod(cluster)
        released = await claims(cluster)
    assert (kept, released) == ({"data": (FINALIZER,)}, {})


class Unseen(RecordingTransport):
    """Binds a pod of the claim "data" right before pods of a namespace are listed."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self._cluster = cluster
        self._has_bound = False

    async def request(self, request: Request) -> Response:
        if request.path.endswith("/namespaces/default/pods") and not self._has_bound:
            self._has_bound = True
            add_pod(self._cluster, nodeName="n")
        return await super().request(request)


class Stale(RecordingTransport):
    """Answers the first lists of pods with an old state."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self.stale_lists = 2

    async def request(self, request: Request) -> Response:
        answer = await super().request(request)
        if request.path.endswith("/namespaces/default/pods") and self.stale_lists:
            self.stale_lists -= 1
            body = b'{"metadata": {"resourceVersion": "1"}, "items": []}'
            return Response(answer.status, answer.headers, body)
        return answer


async def test_a_list_that_is_older_than_the_cache_decides_nothing(
    cluster: Cluster,
) -> None:
    """An API server behind a cache may answer so; the sync is retried."""
    add_claim(cluster)
    transport = Stale(cluster)
    await delete_claim(cluster)
    async with cluster.manager(CONFIG, transport):
        assert await claims(cluster) == {}
    assert transport.stale_lists == 0
