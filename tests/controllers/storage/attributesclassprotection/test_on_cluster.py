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
from controller_manager.controllers.storage.attributesclassprotection import controller
from tests.clusters import make_config
from tests.controllers.hands import Before
from tests.controllers.responses import refusal
from tests.controllers.storage.objects import Storage

pytestmark = pytest.mark.looptime

NAME = "volumeattributesclass-protection-controller"
CONFIG = make_config(controllers=(NAME,))
CONFINED = make_config(controllers=(NAME,), use_service_account_credentials=True)
HOLD = "example.com/hold"
GOLD: JSON = {"volumeAttributesClassName": "gold"}
PROTECTED = {"gold": [controller.FINALIZER]}


def add_class(cluster: Storage, name: str, *finalizers: str) -> None:
    """Create a class; the API server adds the finalizer of protection."""
    fields: JSON = {"driverName": "csi.example.com", "parameters": {"iops": "100"}}
    metadata = {"finalizers": list(finalizers)}
    cluster.put(VOLUME_ATTRIBUTES_CLASSES, name, metadata=metadata, **fields)


def delete_class(cluster: Storage, name: str = "gold") -> None:
    cluster.remove(VOLUME_ATTRIBUTES_CLASSES, name)


async def classes(cluster: Storage) -> dict[str, list[str]]:
    await asyncio.sleep(1)
    return cluster.finalizers(VOLUME_ATTRIBUTES_CLASSES)


def lose(cluster: Storage, resource: Any, name: str) -> None:
    """Delete an object although it is protected."""
    cluster.remove(resource, name)
    cluster.edit(resource, name, metadata={"finalizers": None})


async def test_a_deleted_class_goes_with_its_last_user() -> None:
    """The role of upstream suffices; the rest of the class stays as it is."""
    cluster = Storage(rbac=True)
    add_class(cluster, "gold", HOLD)
    cluster.claim(**GOLD)
    cluster.volume("disk", **GOLD)
    async with cluster.confined_manager(CONFINED) as recording:
        delete_class(cluster)
        assert await classes(cluster) == {"gold": [HOLD, controller.FINALIZER]}
        lose(cluster, CLAIMS, "data")
        assert await classes(cluster) == {"gold": [HOLD, controller.FINALIZER]}
        lose(cluster, PERSISTENT_VOLUMES, "disk")
        assert await classes(cluster) == {"gold": [HOLD]}
    assert [(each.method, each.status) for each in recording.writes] == [("PUT", 200)]
    stored = cluster.stored(VOLUME_ATTRIBUTES_CLASSES, "gold")
    kept = stored["driverName"], stored["parameters"]
    assert kept == ("csi.example.com", {"iops": "100"})


async def test_an_unused_class_goes_at_once(cluster: Storage) -> None:
    add_class(cluster, "gold")
    add_class(cluster, "silver")
    cluster.claim(volumeAttributesClassName="silver")
    cluster.volume(volumeAttributesClassName="silver")
    async with cluster.manager(CONFIG) as recording:
        delete_class(cluster)
        assert await classes(cluster) == {"silver": [controller.FINALIZER]}
    assert [each.method for each in recording.writes] == ["PUT"]


MODIFIES = {"status": "InProgress", "targetVolumeAttributesClassName": "gold"}


@pytest.mark.parametrize(
    "status",
    [{"currentVolumeAttributesClassName": "gold"}, {"modifyVolumeStatus": MODIFIES}],
)
async def test_a_claim_that_leaves_a_class_uses_it_until_the_change_is_done(
    cluster: Storage, status: JSON
) -> None:
    add_class(cluster, "gold")
    cluster.claim(status=status, volumeAttributesClassName="silver")
    async with cluster.manager(CONFIG):
        delete_class(cluster)
        assert await classes(cluster) == PROTECTED
        cluster.edit(CLAIMS, "data", status=dict.fromkeys(status))
        assert await classes(cluster) == {}


OF_CLAIMS = ("GET", "/api/v1/persistentvolumeclaims")


async def test_a_claim_that_no_cache_shows_keeps_its_class(cluster: Storage) -> None:
    add_class(cluster, "gold")
    begins = Before(cluster, *OF_CLAIMS, lambda: cluster.claim("late", **GOLD))
    async with cluster.manager(CONFIG, begins) as recording:
        delete_class(cluster)
        assert await classes(cluster) == PROTECTED
        assert recording.writes == []
        lose(cluster, CLAIMS, "late")
        assert await classes(cluster) == {}
    assert begins.seen


@pytest.mark.parametrize("fails", [0, 2])
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_class_gets_or_loses_its_finalizer(
    cluster: Storage, fails: int, *, is_deleted: bool
) -> None:
    """A user has removed it; an update that fails is retried."""
    add_class(cluster, "gold", HOLD)
    if is_deleted:
        delete_class(cluster)
    else:
        metadata = {"finalizers": [HOLD]}
        cluster.edit(VOLUME_ATTRIBUTES_CLASSES, "gold", metadata=metadata)
    error = refusal(500, "InternalError")
    failing = Before(cluster, "PUT", "/gold", lambda: error, fails)
    async with cluster.manager(CONFIG, failing) as sent:
        wanted = [HOLD] if is_deleted else [HOLD, controller.FINALIZER]
        assert await classes(cluster) == {"gold": wanted}
    assert [each.status for each in sent.writes] == [*[500] * fails, 200]


async def test_a_volume_that_leaves_a_class_uses_it_no_more(cluster: Storage) -> None:
    add_class(cluster, "gold")
    cluster.volume(**GOLD)
    async with cluster.manager(CONFIG):
        delete_class(cluster)
        assert await classes(cluster) == PROTECTED
        silver = {"volumeAttributesClassName": "silver"}
        cluster.edit(PERSISTENT_VOLUMES, "data", spec=silver)
        assert await classes(cluster) == {}


def claim(spec: bytes = b"{}", status: bytes = b"{}") -> PersistentVolumeClaim:
    return PersistentVolumeClaim(raw_spec=Raw(spec), raw_status=Raw(status))


def volume(spec: bytes) -> PersistentVolume:
    return PersistentVolume(raw_spec=Raw(spec))


WANTED = b'{"volumeAttributesClassName":"a"}'
CHANGING = (
    b'{"currentVolumeAttributesClassName":"b","modifyVolumeStatus":'
    b'{"status":"InProgress","targetVolumeAttributesClassName":"c"}}'
)


@pytest.mark.parametrize(
    ("used", "classes"),
    [
        (claim(), ()),
        (claim(b'{"volumeAttributesClassName":""}'), ()),
        (claim(WANTED), ("a",)),
        (claim(WANTED, b'{"currentVolumeAttributesClassName":"a"}'), ("a",)),
        (claim(status=b'{"currentVolumeAttributesClassName":"b"}'), ("b",)),
        (claim(status=b'{"modifyVolumeStatus":{"status":"Pending"}}'), ()),
        (claim(WANTED, CHANGING), ("a", "b", "c")),
    ],
)
def test_a_claim_uses_the_classes_it_wants_has_and_changes_to(
    used: PersistentVolumeClaim, classes: tuple[str, ...]
) -> None:
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
    same = controller.VOLUMES_BY_CLASS.has_same_values
    assert controller.classes_of_volume(used) == classes
    assert same is not None
    assert same(used, volume(b"{}")) is (not classes)
