"""Claims and volumes are bound on a cluster in memory, on virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import EVENTS, PODS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import DeleteOptions, PatchType
from controller_manager.client.rest.transport import Request, Response, Transport
from controller_manager.controllers.storage.volumebinder.options import (
    VolumeBinderOptions,
)
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.options.gates import FeatureGates
from tests.clusters import TOKEN, Cluster, RecordingTransport, make_config
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime

CONFIG = make_config(controllers=("persistentvolume-binder",))
PERIOD = VolumeBinderOptions().sync_period


def add_volume(cluster: Cluster, name: str, size: str = "1Gi", **spec: Any) -> None:
    """Create a volume that is kept when its claim is gone.

    There is no storage class of that name, so none is provisioned.
    """
    fields = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size},
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "by-hand",
        "csi": {"driver": "csi.example.com", "volumeHandle": name},
    }
    cluster.add("PersistentVolume", name, spec={**fields, **spec})


def add_claim(
    cluster: Cluster, name: str = "data", metadata: JSON | None = None, **spec: Any
) -> None:
    """Create a claim for such a volume; `None` leaves a field out."""
    fields = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "by-hand",
        **spec,
    }
    given = {key: value for key, value in fields.items() if value is not None}
    metadata = metadata or {"name": name}
    cluster.add("PersistentVolumeClaim", name, metadata=metadata, spec=given)


async def reference_to_claim(cluster: Cluster) -> JSON:
    """Return a reference to the claim "data", with its uid."""
    stored = await cluster.client.get(CLAIMS, "default", "data")
    return {
        "namespace": "default",
        "name": "data",
        "uid": stored.metadata.uid,
        "kind": "PersistentVolumeClaim",
    }


def add_class(cluster: Cluster, name: str = "by-hand", **fields: Any) -> None:
    """Create a storage class with an external provisioner."""
    body = {"provisioner": "csi.example.com", "volumeBindingMode": "Immediate"}
    cluster.add("StorageClass", name, "storage.k8s.io/v1", **{**body, **fields})


async def bindings(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """Return the phase and the volume of each claim, a second later."""
    await asyncio.sleep(1)
    page = await cluster.client.list_page(CLAIMS)
    return {
        each.metadata.name: (each.status.phase, each.spec.volume_name)
        for each in page.items
    }


async def phases(cluster: Cluster) -> dict[str, str]:
    """Return the phase of each volume, a second later."""
    await asyncio.sleep(1)
    page = await cluster.client.list_page(PERSISTENT_VOLUMES)
    return {each.metadata.name: each.status.phase for each in page.items}


async def events(cluster: Cluster) -> list[tuple[str, str]]:
    """Return object and reason of each event."""
    page = await cluster.client.list_page(EVENTS)
    return [(each.involved_object.name, each.reason) for each in page.items]


async def remove_claim(cluster: Cluster, name: str = "data") -> None:
    """Delete a claim that has no protection."""
    finalizers = {"metadata": {"finalizers": None}}
    await cluster.client.patch(CLAIMS, "default", name, finalizers, PatchType.MERGE)
    await cluster.client.delete(CLAIMS, "default", name)


async def remove_volume(cluster: Cluster, name: str) -> None:
    """Delete a volume that has no protection."""
    finalizers = {"metadata": {"finalizers": None}}
    client = cluster.client
    await client.patch(PERSISTENT_VOLUMES, "", name, finalizers, PatchType.MERGE)
    await client.delete(PERSISTENT_VOLUMES, "", name)


async def test_its_role_is_enough_for_its_work() -> None:
    """Claims are bound, provisioned, given a class and lost; volumes are released."""
    cluster = Cluster(rbac=True)
    config = make_config(
        controllers=("persistentvolume-binder",), use_service_account_credentials=True
    )
    add_volume(cluster, "v")
    add_claim(cluster)
    add_claim(cluster, "asks-for-one", storageClassName="made")
    add_claim(cluster, "without", storageClassName=None)
    async with cluster.confined_manager(config) as recording:
        assert (await bindings(cluster))["data"] == ("Bound", "v")
        add_class(cluster, "made")
        cluster.add(
            "StorageClass",
            "std",
            "storage.k8s.io/v1",
            metadata={
                "name": "std",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            provisioner="csi.example.com",
            volumeBindingMode="Immediate",
        )
        await asyncio.sleep(PERIOD)
        await remove_claim(cluster)
        assert await phases(cluster) == {"v": "Released"}
    assert {each.status for each in recording.writes} == {200}


async def test_each_volume_that_becomes_available_is_offered_to_a_claim(
    cluster: Cluster,
) -> None:
    """The claim gets the volume at once; upstream waits for the sync period."""
    add_claim(cluster, "large", resources={"requests": {"storage": "9Gi"}})
    add_claim(cluster, "labelled", selector={"matchLabels": {"a": "b"}})
    for number in range(5):
        add_claim(cluster, f"c-{number}")
    async with cluster.manager(CONFIG):
        assert {phase for phase, _ in (await bindings(cluster)).values()} == {"Pending"}
        for number in range(4):
            add_volume(cluster, f"v-{number}")
        bound = await bindings(cluster)
    assert sorted(name for name, (phase, _) in bound.items() if phase == "Bound") == [
        "c-0",
        "c-1",
        "c-2",
        "c-3",
    ]


async def test_volumes_that_the_scheduler_gives_away_are_offered_to_no_claim(
    cluster: Cluster,
) -> None:
    """Their class waits for the first consumer, so no claim is synced in vain."""
    add_class(cluster, volumeBindingMode="WaitForFirstConsumer")
    add_claim(cluster)
    async with cluster.manager(CONFIG):
        await bindings(cluster)
        add_volume(cluster, "v")
        assert await bindings(cluster) == {"data": ("Pending", "")}
    page = await cluster.client.list_page(EVENTS)
    assert [(each.reason, each.count) for each in page.items] == [
        ("WaitForFirstConsumer", 1)
    ]


async def test_a_claim_gets_the_volume_that_it_names_as_soon_as_it_is_there(
    cluster: Cluster,
) -> None:
    """Upstream waits for the sync period. Without the volume the claim is Lost."""
    add_claim(cluster, volumeName="v")
    async with cluster.manager(CONFIG):
        assert await bindings(cluster) == {"data": ("Pending", "v")}
        add_volume(cluster, "v")
        assert await bindings(cluster) == {"data": ("Bound", "v")}
        await remove_volume(cluster, "v")
        assert await bindings(cluster) == {"data": ("Lost", "v")}
    assert await events(cluster) == [("data", "ClaimLost")]


async def test_a_volume_that_refers_to_a_claim_which_is_gone_is_released_at_once(
    cluster: Cluster,
) -> None:
    """The claim may never have named the volume."""
    add_claim(cluster)
    reference = await reference_to_claim(cluster)
    async with cluster.manager(CONFIG):
        add_volume(cluster, "v", volumeMode="Block", claimRef=reference)
        assert await phases(cluster) == {"v": "Pending"}
        await remove_claim(cluster)
        assert await phases(cluster) == {"v": "Released"}
    assert sorted(await events(cluster)) == [
        ("data", "ProvisioningFailed"),
        ("data", "VolumeMismatch"),
        ("v", "VolumeMismatch"),
    ]


async def test_a_volume_is_unbound_when_its_claim_gets_another_one(
    cluster: Cluster,
) -> None:
    """Two managers may each have chosen a volume. The claim keeps the one it names."""
    add_claim(cluster, volumeName="v")
    reference = await reference_to_claim(cluster)
    async with cluster.manager(CONFIG):
        add_volume(cluster, "w", claimRef=reference)
        add_volume(cluster, "v")
        assert await bindings(cluster) == {"data": ("Bound", "v")}
        assert await phases(cluster) == {"v": "Bound", "w": "Available"}
        left = await cluster.client.get(PERSISTENT_VOLUMES, "", "w")
    assert left.spec.claim_ref is not None
    assert left.spec.claim_ref.uid == ""


async def test_a_claim_is_told_which_pod_it_waits_for(cluster: Cluster) -> None:
    """Pods that have ended, or have a node, do not count."""
    add_class(cluster, volumeBindingMode="WaitForFirstConsumer")
    add_volume(cluster, "v")
    add_claim(cluster)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    containers = [{"name": "c", "image": "app:v1"}]
    spec = {"containers": containers, "volumes": [volume]}
    async with cluster.manager(CONFIG):
        assert await bindings(cluster) == {"data": ("Pending", "")}
        cluster.add("Pod", "done", spec=spec, status={"phase": "Failed"})
        cluster.add("Pod", "placed", spec={**spec, "nodeName": "n"})
        cluster.add("Pod", "web", spec=spec)
        await asyncio.sleep(PERIOD)
        await cluster.client.delete(PODS, "default", "web", DeleteOptions(0))
        await asyncio.sleep(PERIOD)
    found = await cluster.client.list_page(EVENTS)
    assert [(each.reason, each.message, each.count) for each in found.items] == [
        (
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding",
            2,
        ),
        ("WaitForPodScheduled", "waiting for pod web to be scheduled", 1),
    ]
    assert {each.source.component for each in found.items} == {
        "persistentvolume-controller"
    }


async def test_the_newest_default_class_is_given(cluster: Cluster) -> None:
    """As the API server's admission does; of two equally old ones the first by name."""
    for name, is_default in (("b", "true"), ("a", "true"), ("c", "false")):
        annotations = {"storageclass.kubernetes.io/is-default-class": is_default}
        cluster.add(
            "StorageClass",
            name,
            "storage.k8s.io/v1",
            metadata={"name": name, "annotations": annotations},
            provisioner="csi.example.com",
            volumeBindingMode="Immediate",
        )
    kind = cluster.server.catalogue.of("v1", "PersistentVolumeClaim")
    assert kind is not None
    add_claim(cluster, storageClassName="x")
    stored = await cluster.client.get_json(CLAIMS, "default", "data")
    del stored["spec"]["storageClassName"]
    storage = cluster.server.storage.collection(kind.resource)
    storage.put(("default", "data"), stored)
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
    claim = await cluster.client.get(CLAIMS, "default", "data")
    assert claim.spec.storage_class_name == "a"


async def test_a_claim_that_only_the_api_server_shows_keeps_its_volume(
    cluster: Cluster,
) -> None:
    """The cache may be older than the binding."""
    add_claim(cluster)
    reference = await reference_to_claim(cluster)
    add_volume(cluster, "v", claimRef=reference)
    transport = Blind(cluster)
    config = replace(CONFIG, features=FeatureGates({"WatchListClient": False}))
    async with cluster.manager(config, transport):
        assert await phases(cluster) == {"v": "Pending"}
    assert transport.asked == 1


async def test_a_volume_that_gets_another_claim_while_the_former_is_read_is_kept(
    cluster: Cluster,
) -> None:
    """The former claim is gone; the new claim may exist."""
    add_claim(cluster, "new", volumeName="v")
    new = await cluster.client.get(CLAIMS, "default", "new")
    kind = {"kind": "PersistentVolumeClaim", "namespace": "default"}
    former = {**kind, "name": "old", "uid": "gone"}
    add_volume(cluster, "v", claimRef=former, persistentVolumeReclaimPolicy="Delete")

    async def give_away() -> None:
        reference = {**kind, "name": "new", "uid": new.metadata.uid}
        patch = {"spec": {"claimRef": reference}}
        await cluster.client.patch(PERSISTENT_VOLUMES, "", "v", patch, PatchType.MERGE)
        await asyncio.sleep(0.1)  # the watch shows it before the answer comes

    transport = Interrupted(cluster, "/persistentvolumeclaims/old", give_away)
    async with cluster.manager(CONFIG, transport) as recording:
        assert await phases(cluster) == {"v": "Bound"}
        assert await bindings(cluster) == {"new": ("Bound", "v")}
    assert [each for each in recording.writes if b"Released" in each.body] == []


async def test_a_claim_that_changes_while_its_volume_is_read_is_not_lost(
    cluster: Cluster,
) -> None:
    """A backup may restore a claim as bound before it restores the volume."""
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    add_claim(cluster, volumeName="first")
    patch = {"metadata": {"annotations": bound}}
    await cluster.client.patch(CLAIMS, "default", "data", patch, PatchType.MERGE)

    async def restore() -> None:
        await remove_claim(cluster)
        metadata = {"name": "data", "annotations": bound}
        add_claim(cluster, metadata=metadata, volumeName="second")
        await asyncio.sleep(0.1)

    second = Interrupted(cluster, "/persistentvolumes/second")
    transport = Interrupted(cluster, "/persistentvolumes/first", restore, inner=second)
    async with cluster.manager(CONFIG, transport):
        await asyncio.sleep(0.05)
        assert (await bindings(cluster))["data"] == ("Lost", "second")
    assert second.seen == 1  # it was asked for before the claim was lost


class Interrupted(RecordingTransport):
    """Calls a function before the first answer for a path; counts requests."""

    def __init__(
        self,
        cluster: Cluster,
        path: str,
        happens: Callable[[], Awaitable[None]] | None = None,
        inner: Transport | None = None,
    ) -> None:
        super().__init__(inner or InMemoryTransport(cluster.server, TOKEN))
        self._path = path
        self._happens = happens
        self.seen = 0

    async def request(self, request: Request) -> Response:
        if request.path.endswith(self._path) and request.method == "GET":
            self.seen += 1
            if self._happens is not None and self.seen == 1:
                await self._happens()
        return await super().request(request)


async def test_a_volume_of_a_claim_with_an_invalid_name_is_released(
    cluster: Cluster,
) -> None:
    """Users may write such a reference; no request has that name."""
    reference = {"namespace": "default", "name": "../data", "uid": "x", "kind": "x"}
    add_volume(cluster, "v", claimRef=reference)
    async with cluster.manager(CONFIG):
        assert await phases(cluster) == {"v": "Released"}


class Blind(RecordingTransport):
    """Returns no claims in lists and watches; returns a claim that is read by name."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self._version = cluster.server.storage.version
        self.asked = 0

    async def request(self, request: Request) -> Response:
        answer = await super().request(request)
        if request.path.endswith("/persistentvolumeclaims"):
            body = f'{{"metadata": {{"resourceVersion": "{self._version}"}}}}'
            return Response(answer.status, answer.headers, body.encode())
        self.asked += request.path.endswith("/persistentvolumeclaims/data")
        return answer


async def test_a_refused_write_is_tried_again(cluster: Cluster) -> None:
    """The claim that needs a provisioner gets an event."""
    add_class(cluster)
    add_claim(cluster)
    is_broken = True

    async def refuse(request: Request) -> Response | None:
        if is_broken and request.method == "PUT":
            body = (
                b'{"kind":"Status","code":500,"reason":"InternalError","message":"no"}'
            )
            return Response(500, {}, body)
        return None

    async with cluster.manager(CONFIG, Meddler(cluster.transport, refuse)):
        await asyncio.sleep(1)
        is_broken = False
        await asyncio.sleep(130)
    page = await cluster.client.list_page(EVENTS)
    assert [(each.reason, each.message[:60]) for each in page.items] == [
        ("ProvisioningFailed", "Error saving claim: no"),
        (
            "ExternalProvisioning",
            "Waiting for a volume to be created either by the external pr",
        ),
    ]


async def test_no_provisioner_is_asked_for_volumes_if_provisioning_is_off(
    cluster: Cluster,
) -> None:
    """--enable-dynamic-provisioning=false; existing volumes are bound."""
    add_class(cluster)
    add_claim(cluster)
    config = replace(
        CONFIG,
        controllers={VolumeBinderOptions: VolumeBinderOptions(provisions=False)},
    )
    async with cluster.manager(config) as recording:
        assert await bindings(cluster) == {"data": ("Pending", "")}
        assert recording.writes == []
        add_volume(cluster, "v")
        await asyncio.sleep(PERIOD)
        assert await bindings(cluster) == {"data": ("Bound", "v")}
    assert await events(cluster) == []


async def test_two_managers_give_no_volume_to_two_claims(cluster: Cluster) -> None:
    """Each write carries the version of its decision; one of two writes is refused."""
    for number in range(20):
        add_volume(cluster, f"v-{number:02}")
        add_claim(cluster, f"c-{number:02}")
    async with cluster.manager(CONFIG), cluster.manager(CONFIG):
        await asyncio.sleep(PERIOD * 3)
        bound = await bindings(cluster)
    assert {phase for phase, _ in bound.values()} == {"Bound"}
    assert len({volume for _, volume in bound.values()}) == 20
    assert set((await phases(cluster)).values()) == {"Bound"}
