"""Deleted classes of attributes stay while they are used, in memory."""

import asyncio
from typing import Any

import pytest
from msgspec import Raw

from controller_manager.api.core.claims import (
    CLAIMS,
    PersistentVolumeClaim,
    attributes_classes_of,
)
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.json_objects import JSON
from controller_manager.api.storage.v1 import VOLUME_ATTRIBUTES_CLASSES
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.storage.attributesclassprotection import controller
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN, Cluster, RecordingTransport, make_config
from tests.controllers.storage.failing_updates import FailingUpdates

NAME = "volumeattributesclass-protection-controller"
CONFIG = make_config(controllers=(NAME,))
CONFINED = make_config(controllers=(NAME,), use_service_account_credentials=True)
API = "storage.k8s.io/v1"
HOLD = "example.com/hold"


SIZE = {"storage": "1Gi"}


def claim_json(name: str, attributes_class: str) -> JSON:
    """Return a claim that wants a class."""
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": SIZE},
            "volumeAttributesClassName": attributes_class,
        },
    }


def create(cluster: Cluster, kind_name: str, obj: JSON, api: str = "v1") -> None:
    """Create an object."""
    kind = cluster.server.catalogue.of(api, kind_name)
    assert kind is not None
    cluster.server.objects.create(kind, "default" if kind.namespaced else "", obj)


def add_class(cluster: Cluster, name: str, *finalizers: str) -> None:
    """Create a class; the API server adds the finalizer of protection."""
    obj: JSON = {
        "metadata": {"name": name, "finalizers": list(finalizers)},
        "driverName": "csi.example.com",
        "parameters": {"iops": "100"},
    }
    create(cluster, "VolumeAttributesClass", obj, API)


def add_claim(cluster: Cluster, name: str, attributes_class: str) -> None:
    """Create a claim that wants a class."""
    create(cluster, "PersistentVolumeClaim", claim_json(name, attributes_class))


def add_volume(cluster: Cluster, name: str, attributes_class: str) -> None:
    """Create a volume that has a class."""
    spec: JSON = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": SIZE,
        "csi": {"driver": "csi.example.com", "volumeHandle": name},
        "volumeAttributesClassName": attributes_class,
    }
    create(cluster, "PersistentVolume", {"metadata": {"name": name}, "spec": spec})


async def delete_class(cluster: Cluster, name: str) -> None:
    """Delete a class."""
    await cluster.client.delete(VOLUME_ATTRIBUTES_CLASSES, "", name)


async def classes(cluster: Cluster) -> dict[str, tuple[str, ...] | None]:
    """Return the finalizers of all classes."""
    await asyncio.sleep(1)
    page = await cluster.client.list_page(VOLUME_ATTRIBUTES_CLASSES)
    return {each.metadata.name: each.metadata.finalizers for each in page.items}


async def lose(cluster: Cluster, resource: Any, namespace: str, name: str) -> None:
    """Delete an object although it is protected."""
    await cluster.client.delete(resource, namespace, name)
    patch = {"metadata": {"finalizers": None}}
    await cluster.client.patch(resource, namespace, name, patch, PatchType.MERGE)


@pytest.mark.looptime
async def test_a_deleted_class_goes_with_its_last_user() -> None:
    """The role of upstream suffices; the rest of the class stays as it is."""
    cluster = Cluster(rbac=True)
    add_class(cluster, "gold", HOLD)
    add_claim(cluster, "data", "gold")
    add_volume(cluster, "disk", "gold")
    async with cluster.confined_manager(CONFINED) as recording:
        await delete_class(cluster, "gold")
        both = await classes(cluster)
        await lose(cluster, CLAIMS, "default", "data")
        one = await classes(cluster)
        await lose(cluster, PERSISTENT_VOLUMES, "", "disk")
        none = await classes(cluster)
    assert both == one == {"gold": (HOLD, controller.FINALIZER)}
    assert none == {"gold": (HOLD,)}
    assert [(each.method, each.status) for each in recording.writes] == [("PUT", 200)]
    stored = await cluster.client.get(VOLUME_ATTRIBUTES_CLASSES, "", "gold")
    assert (stored.driver_name, stored.parameters) == (
        "csi.example.com",
        {"iops": "100"},
    )


@pytest.mark.looptime
async def test_an_unused_class_goes_at_once(cluster: Cluster) -> None:
    """Users of another class do not count."""
    add_class(cluster, "gold")
    add_class(cluster, "silver")
    add_claim(cluster, "data", "silver")
    add_volume(cluster, "disk", "silver")
    async with cluster.manager(CONFIG) as recording:
        await delete_class(cluster, "gold")
        assert await classes(cluster) == {"silver": (controller.FINALIZER,)}
    assert [each.method for each in recording.writes] == ["PUT"]


@pytest.mark.looptime
@pytest.mark.parametrize(
    "status",
    [
        {"currentVolumeAttributesClassName": "gold"},
        {
            "modifyVolumeStatus": {
                "status": "InProgress",
                "targetVolumeAttributesClassName": "gold",
            }
        },
    ],
)
async def test_a_claim_that_leaves_a_class_uses_it_until_the_change_is_done(
    cluster: Cluster, status: JSON
) -> None:
    """Its status has the class of its volume, and the class to which it changes."""
    add_class(cluster, "gold")
    spec = claim_json("data", "silver")["spec"]
    cluster.add("PersistentVolumeClaim", "data", spec=spec, status=status)
    async with cluster.manager(CONFIG):
        await delete_class(cluster, "gold")
        kept = await classes(cluster)
        patch = {"status": {**dict.fromkeys(status)}}
        await cluster.client.patch(
            CLAIMS, "default", "data", patch, PatchType.MERGE, "status"
        )
        released = await classes(cluster)
    assert (kept, released) == ({"gold": (controller.FINALIZER,)}, {})


@pytest.mark.looptime
async def test_a_class_without_the_finalizer_gets_it(cluster: Cluster) -> None:
    """A user has removed it; other finalizers stay."""
    add_class(cluster, "gold", HOLD)
    async with cluster.manager(CONFIG) as recording:
        patch = {"metadata": {"finalizers": [HOLD]}}
        place = (VOLUME_ATTRIBUTES_CLASSES, "", "gold")
        await cluster.client.patch(*place, patch, PatchType.MERGE)
        assert await classes(cluster) == {"gold": (HOLD, controller.FINALIZER)}
    assert [each.method for each in recording.writes] == ["PUT"]


class Lists(RecordingTransport):
    """Counts the lists of all claims; the first ones may be from an old cache."""

    def __init__(self, cluster: Cluster, stale: int = 0) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self.count = 0
        self._stale = stale

    async def request(self, request: Request) -> Response:
        answer = await super().request(request)
        if request.path == "/api/v1/persistentvolumeclaims":
            self.count += 1
            if self.count <= self._stale:
                body = b'{"metadata": {"resourceVersion": "1"}, "items": []}'
                return Response(answer.status, answer.headers, body)
        return answer


class Begins(RecordingTransport):
    """Creates a claim right before the claims are listed, unseen by the cache."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self._cluster = cluster
        self.has_begun = False

    async def request(self, request: Request) -> Response:
        if request.path == "/api/v1/persistentvolumeclaims" and not self.has_begun:
            self.has_begun = True
            add_claim(self._cluster, "late", "gold")
        return await super().request(request)


@pytest.mark.looptime
async def test_a_claim_that_no_cache_shows_keeps_its_class(cluster: Cluster) -> None:
    """The class stays until the claim is gone."""
    add_class(cluster, "gold")
    transport = Begins(cluster)
    async with cluster.manager(CONFIG, transport) as recording:
        await delete_class(cluster, "gold")
        assert await classes(cluster) == {"gold": (controller.FINALIZER,)}
        assert recording.writes == []
        await lose(cluster, CLAIMS, "default", "late")
        assert await classes(cluster) == {}
    assert transport.has_begun


@pytest.mark.looptime
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_an_update_that_fails_is_retried(
    cluster: Cluster, *, is_deleted: bool
) -> None:
    """The update may add or remove the finalizer."""
    add_class(cluster, "gold", HOLD)
    if is_deleted:
        await delete_class(cluster, "gold")
    else:
        patch = {"metadata": {"finalizers": [HOLD]}}
        place = (VOLUME_ATTRIBUTES_CLASSES, "", "gold")
        await cluster.client.patch(*place, patch, PatchType.MERGE)
    async with cluster.manager(CONFIG, FailingUpdates(cluster)) as sent:
        wanted = (HOLD,) if is_deleted else (HOLD, controller.FINALIZER)
        assert await classes(cluster) == {"gold": wanted}
    assert [each.status for each in sent.writes] == [500, 500, 200]


@pytest.mark.looptime
async def test_a_volume_that_leaves_a_class_uses_it_no_more(cluster: Cluster) -> None:
    """A resizer has changed its attributes."""
    add_class(cluster, "gold")
    add_volume(cluster, "disk", "gold")
    async with cluster.manager(CONFIG):
        await delete_class(cluster, "gold")
        kept = await classes(cluster)
        patch = {"spec": {"volumeAttributesClassName": "silver"}}
        place = (PERSISTENT_VOLUMES, "", "disk")
        await cluster.client.patch(*place, patch, PatchType.MERGE)
        released = await classes(cluster)
    assert (kept, released) == ({"gold": (controller.FINALIZER,)}, {})


def claim(spec: bytes = b"{}", status: bytes = b"{}") -> PersistentVolumeClaim:
    """Return a claim."""
    return PersistentVolumeClaim(raw_spec=Raw(spec), raw_status=Raw(status))


def volume(spec: bytes) -> PersistentVolume:
    """Return a volume."""
    return PersistentVolume(raw_spec=Raw(spec))


WANTED = b'{"volumeAttributesClassName":"a"}'


@pytest.mark.parametrize(
    ("used", "classes"),
    [
        (claim(), ()),
        (claim(b'{"volumeAttributesClassName":""}'), ()),
        (claim(WANTED), ("a",)),
        (claim(WANTED, b'{"currentVolumeAttributesClassName":"a"}'), ("a",)),
        (claim(status=b'{"currentVolumeAttributesClassName":"b"}'), ("b",)),
        (claim(status=b'{"modifyVolumeStatus":{"status":"Pending"}}'), ()),
        (
            claim(
                WANTED,
                b'{"currentVolumeAttributesClassName":"b","modifyVolumeStatus":'
                b'{"status":"InProgress","targetVolumeAttributesClassName":"c"}}',
            ),
            ("a", "b", "c"),
        ),
    ],
)
def test_a_claim_uses_the_classes_it_wants_has_and_changes_to(
    used: PersistentVolumeClaim, classes: tuple[str, ...]
) -> None:
    """Each class is returned once."""
    assert attributes_classes_of(used) == classes
    assert controller.CLAIMS_BY_CLASS.has_same_values is not None
    assert controller.CLAIMS_BY_CLASS.has_same_values(used, claim()) is (not classes)


@pytest.mark.parametrize(
    ("used", "classes"),
    [
        (volume(b"{}"), ()),
        (volume(b'{"volumeAttributesClassName":null}'), ()),
        (volume(b'{"volumeAttributesClassName":""}'), ()),
        (volume(WANTED), ("a",)),
    ],
)
def test_a_volume_uses_the_class_that_it_has(
    used: PersistentVolume, classes: tuple[str, ...]
) -> None:
    """It may have no class."""
    assert controller.classes_of_volume(used) == classes
    assert controller.VOLUMES_BY_CLASS.has_same_values is not None
    assert controller.VOLUMES_BY_CLASS.has_same_values(used, volume(b"{}")) is (
        not classes
    )
