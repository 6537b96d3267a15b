"""Deleted volumes stay while they are bound, in memory and on virtual time."""

import asyncio

import pytest

from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.storage.volumeprotection.controller import FINALIZER
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN, Cluster, RecordingTransport, make_config
from tests.controllers.storage.failing_updates import FailingUpdates

pytestmark = pytest.mark.looptime

CONFIG = make_config(controllers=("pv-protection",))
CONFINED = make_config(
    controllers=("pv-protection",), use_service_account_credentials=True
)
HOLD = "example.com/hold"


def add_volume(cluster: Cluster, name: str, phase: str, *finalizers: str) -> None:
    """Create a volume in a phase, with these finalizers."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "csi.example.com", "volumeHandle": name},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    cluster.add("PersistentVolume", name, spec=spec, status={"phase": phase})
    strip(cluster, name, *finalizers)


def edit(cluster: Cluster, name: str, subresource: str = "", **parts: JSON) -> None:
    """Merge parts into a volume, at once."""
    kind = cluster.server.catalogue.of("v1", "PersistentVolume")
    assert kind is not None
    objects = cluster.server.objects
    found = objects.storage.collection(kind.resource).get(("", name))
    assert found is not None
    merged = {key: {**found.obj[key], **parts[key]} for key in parts}
    objects.update(kind, "", name, {**found.obj, **merged}, subresource)


def strip(cluster: Cluster, name: str, *finalizers: str) -> None:
    """Leave a volume only these finalizers."""
    edit(cluster, name, metadata={"finalizers": list(finalizers)})


def set_phase(cluster: Cluster, name: str, phase: str) -> None:
    """Do the binder's work."""
    edit(cluster, name, "status", status={"phase": phase})


async def delete(cluster: Cluster, name: str) -> None:
    """Delete a volume."""
    await cluster.client.delete(PERSISTENT_VOLUMES, "", name)


async def volumes(cluster: Cluster) -> dict[str, tuple[str, ...] | None]:
    """Return the finalizers of all volumes."""
    await asyncio.sleep(1)
    page = await cluster.client.list_page(PERSISTENT_VOLUMES)
    return {each.metadata.name: each.metadata.finalizers for each in page.items}


@pytest.mark.parametrize("phase", ["Pending", "Available", "Released", "Failed"])
async def test_a_deleted_volume_that_is_not_bound_goes_at_once(
    cluster: Cluster, phase: str
) -> None:
    """Its phase does not matter."""
    add_volume(cluster, "disk", phase, FINALIZER)
    async with cluster.manager(CONFIG) as recording:
        await delete(cluster, "disk")
        assert await volumes(cluster) == {}
    assert [(each.method, each.status) for each in recording.writes] == [("PUT", 200)]


async def test_a_deleted_volume_that_is_bound_stays_until_it_is_released() -> None:
    """The role of upstream suffices; the rest of the volume stays as it is."""
    cluster = Cluster(rbac=True)
    add_volume(cluster, "disk", "Bound", HOLD, FINALIZER)
    before = await cluster.client.get(PERSISTENT_VOLUMES, "", "disk")
    async with cluster.confined_manager(CONFINED) as recording:
        await delete(cluster, "disk")
        kept = await volumes(cluster)
        set_phase(cluster, "disk", "Released")
        released = await volumes(cluster)
    assert kept == {"disk": (HOLD, FINALIZER)}
    assert released == {"disk": (HOLD,)}
    assert [(each.method, each.status) for each in recording.writes] == [("PUT", 200)]
    after = await cluster.client.get(PERSISTENT_VOLUMES, "", "disk")
    assert after.raw_spec == before.raw_spec
    assert after.status.phase == "Released"


async def test_a_volume_without_the_finalizer_gets_it(cluster: Cluster) -> None:
    """It is older than the controller, or a user has removed the finalizer."""
    add_volume(cluster, "disk", "Bound")
    add_volume(cluster, "other", "Available", HOLD, FINALIZER)
    async with cluster.manager(CONFIG) as recording:
        before = await volumes(cluster)
        strip(cluster, "other", HOLD)
        after = await volumes(cluster)
    assert before == after == {"disk": (FINALIZER,), "other": (HOLD, FINALIZER)}
    assert [each.method for each in recording.writes] == ["PUT", "PUT"]


class Meanwhile(RecordingTransport):
    """Changes the volume "disk" right before it is first written."""

    def __init__(self, cluster: Cluster, *, replaced: bool) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self._cluster = cluster
        self._replaced = replaced
        self._has_changed = False

    async def request(self, request: Request) -> Response:
        if request.method == "PUT" and not self._has_changed:
            self._has_changed = True
            if self._replaced:
                strip(self._cluster, "disk")
                add_volume(self._cluster, "disk", "Available", FINALIZER)
            else:
                set_phase(self._cluster, "disk", "Bound")
        return await super().request(request)


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_volume_that_changes_before_it_is_written_keeps_its_finalizer(
    cluster: Cluster, *, replaced: bool
) -> None:
    """It may be bound now, or be another volume of the same name."""
    add_volume(cluster, "disk", "Available", FINALIZER)
    async with cluster.manager(CONFIG, Meanwhile(cluster, replaced=replaced)) as sent:
        await delete(cluster, "disk")
        assert await volumes(cluster) == {"disk": (FINALIZER,)}
    assert [each.status for each in sent.writes] == [409]


async def test_a_volume_whose_last_finalizer_a_user_removes_needs_nothing(
    cluster: Cluster,
) -> None:
    """Its deletion is no failure."""
    add_volume(cluster, "disk", "Bound", FINALIZER)
    async with cluster.manager(CONFIG) as recording:
        await delete(cluster, "disk")
        place = (PERSISTENT_VOLUMES, "", "disk")
        patch = {"metadata": {"finalizers": None}}
        await cluster.client.patch(*place, patch, PatchType.MERGE)
        assert await volumes(cluster) == {}
    assert recording.writes == []


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_an_update_that_fails_is_retried(
    cluster: Cluster, *, is_deleted: bool
) -> None:
    """The update may add or remove the finalizer."""
    add_volume(cluster, "disk", "Available", HOLD, *[FINALIZER] * is_deleted)
    if is_deleted:
        await delete(cluster, "disk")
    async with cluster.manager(CONFIG, FailingUpdates(cluster)) as sent:
        wanted = (HOLD,) if is_deleted else (HOLD, FINALIZER)
        assert await volumes(cluster) == {"disk": wanted}
    assert [each.status for each in sent.writes] == [500, 500, 200]
