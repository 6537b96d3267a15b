"""Deleted volumes stay while they are bound, in memory and on virtual time."""

import asyncio

import pytest

from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.controllers.storage.volumeprotection.controller import FINALIZER
from tests.clusters import make_config
from tests.controllers.hands import Before
from tests.controllers.responses import refusal
from tests.controllers.storage.objects import Storage

pytestmark = pytest.mark.looptime

CONFIG = make_config(controllers=("pv-protection",))
CONFINED = make_config(
    controllers=("pv-protection",), use_service_account_credentials=True
)
HOLD = "example.com/hold"


def add_volume(cluster: Storage, name: str, phase: str, *finalizers: str) -> None:
    cluster.volume(name, {"phase": phase})
    strip(cluster, name, *finalizers)


def strip(cluster: Storage, name: str, *finalizers: str) -> None:
    metadata = {"finalizers": list(finalizers) or None}
    cluster.edit(PERSISTENT_VOLUMES, name, metadata=metadata)


def set_phase(cluster: Storage, phase: str) -> None:
    cluster.edit(PERSISTENT_VOLUMES, "disk", status={"phase": phase})


async def volumes(cluster: Storage) -> dict[str, list[str]]:
    await asyncio.sleep(1)
    return cluster.finalizers(PERSISTENT_VOLUMES)


@pytest.mark.parametrize("phase", ["Pending", "Available", "Released", "Failed"])
async def test_a_deleted_volume_that_is_not_bound_goes_at_once(
    cluster: Storage, phase: str
) -> None:
    add_volume(cluster, "disk", phase, FINALIZER)
    async with cluster.manager(CONFIG) as recording:
        cluster.remove(PERSISTENT_VOLUMES, "disk")
        assert await volumes(cluster) == {}
    assert [(each.method, each.status) for each in recording.writes] == [("PUT", 200)]


async def test_a_deleted_volume_that_is_bound_stays_until_it_is_released() -> None:
    """The role of upstream suffices; the rest of the volume stays as it is."""
    cluster = Storage(rbac=True)
    add_volume(cluster, "disk", "Bound", HOLD, FINALIZER)
    before = cluster.stored(PERSISTENT_VOLUMES, "disk")["spec"]
    async with cluster.confined_manager(CONFINED) as recording:
        cluster.remove(PERSISTENT_VOLUMES, "disk")
        assert await volumes(cluster) == {"disk": [HOLD, FINALIZER]}
        set_phase(cluster, "Released")
        assert await volumes(cluster) == {"disk": [HOLD]}
    assert [(each.method, each.status) for each in recording.writes] == [("PUT", 200)]
    after = cluster.stored(PERSISTENT_VOLUMES, "disk")
    assert (after["spec"], after["status"]["phase"]) == (before, "Released")


async def test_a_volume_without_the_finalizer_gets_it(cluster: Storage) -> None:
    """It is older than the controller, or a user has removed the finalizer."""
    add_volume(cluster, "disk", "Bound")
    add_volume(cluster, "other", "Available", HOLD, FINALIZER)
    both = {"disk": [FINALIZER], "other": [HOLD, FINALIZER]}
    async with cluster.manager(CONFIG) as recording:
        assert await volumes(cluster) == both
        strip(cluster, "other", HOLD)
        assert await volumes(cluster) == both
    assert [each.method for each in recording.writes] == ["PUT", "PUT"]


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_volume_that_changes_before_it_is_written_keeps_its_finalizer(
    cluster: Storage, *, replaced: bool
) -> None:
    """It may be bound now, or be another volume of the same name."""
    add_volume(cluster, "disk", "Available", FINALIZER)

    def changes() -> None:
        if replaced:
            strip(cluster, "disk")
            add_volume(cluster, "disk", "Available", FINALIZER)
        else:
            set_phase(cluster, "Bound")

    async with cluster.manager(CONFIG, Before(cluster, "PUT", "", changes)) as sent:
        cluster.remove(PERSISTENT_VOLUMES, "disk")
        assert await volumes(cluster) == {"disk": [FINALIZER]}
    assert [each.status for each in sent.writes] == [409]


async def test_a_volume_whose_last_finalizer_a_user_removes_needs_nothing(
    cluster: Storage,
) -> None:
    add_volume(cluster, "disk", "Bound", FINALIZER)
    async with cluster.manager(CONFIG) as recording:
        cluster.remove(PERSISTENT_VOLUMES, "disk")
        strip(cluster, "disk")
        assert await volumes(cluster) == {}
    assert recording.writes == []


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_an_update_that_fails_is_retried(
    cluster: Storage, *, is_deleted: bool
) -> None:
    add_volume(cluster, "disk", "Available", HOLD, *[FINALIZER] * is_deleted)
    if is_deleted:
        cluster.remove(PERSISTENT_VOLUMES, "disk")
    error = refusal(500, "InternalError")
    failing = Before(cluster, "PUT", "", lambda: error, times=2)
    async with cluster.manager(CONFIG, failing) as sent:
        wanted = [HOLD] if is_deleted else [HOLD, FINALIZER]
        assert await volumes(cluster) == {"disk": wanted}
    assert [each.status for each in sent.writes] == [500, 500, 200]
