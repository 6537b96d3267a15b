"""A cache that has the controller's own writes, and locks of volumes."""

import asyncio

import pytest

from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.controllers.storage.volumebinder.assume_cache import (
    AssumeCache,
    VolumeLocks,
)
from tests.controllers.storage.contexts import Context
from tests.controllers.storage.volumebinder.fixtures import volume


def at(version: int, uid: str = "one") -> PersistentVolume:
    """Return a version of the volume "v"."""
    return volume(metadata={"uid": uid, "resourceVersion": str(version)})


class Setting:
    """A cache, its informer, and the versions that its observer was told of."""

    def __init__(self) -> None:
        context = Context(None)
        self.informer = context.informer(PERSISTENT_VOLUMES)
        self.told: list[str | None] = []
        self.cache = AssumeCache(
            context.of_controller(), PERSISTENT_VOLUMES, (self._observe,)
        )

    def _observe(self, key: str, obj: PersistentVolume | None) -> None:
        assert key == "v"
        self.told.append(None if obj is None else obj.metadata.resource_version)

    @property
    def version(self) -> str | None:
        found = self.cache.get("v")
        return None if found is None else found.metadata.resource_version


def test_a_write_is_known_before_the_watch_shows_it() -> None:
    """The watch replaces it with its own or a newer version, not with an older one."""
    setting = Setting()
    setting.informer.show(at(1))
    setting.cache.assume(at(5))
    setting.informer.show(at(3))
    assert (setting.version, len(setting.cache._assumed)) == ("5", 1)
    setting.informer.show(at(5))
    assert (setting.version, len(setting.cache._assumed)) == ("5", 0)
    setting.informer.show(at(9))
    assert setting.told == ["1", "5", "5", "5", "9"]


def test_a_write_that_the_watch_has_shown_already_is_not_assumed() -> None:
    """The answer may come after the event."""
    setting = Setting()
    setting.informer.show(at(7))
    setting.cache.assume(at(5))
    assert (setting.version, len(setting.cache._assumed)) == ("7", 0)


def test_the_cache_drops_an_object_that_is_gone() -> None:
    """A late answer about a former object of the same name is dropped, too."""
    setting = Setting()
    setting.informer.show(at(1))
    setting.cache.assume(at(5))
    setting.informer.remove("v")
    assert (setting.version, len(setting.cache._assumed)) == (None, 0)
    setting.cache.assume(at(6))
    assert (setting.version, len(setting.cache._assumed)) == (None, 0)
    setting.informer.show(at(8, "two"))
    setting.cache.assume(at(9, "one"))
    assert (setting.version, len(setting.cache._assumed)) == ("8", 0)


def test_a_new_object_of_the_same_name_replaces_an_assumed_one() -> None:
    """The watch may show only the new object."""
    setting = Setting()
    setting.informer.show(at(1))
    setting.cache.assume(at(5))
    setting.informer.show(at(4, "two"))
    assert (setting.version, len(setting.cache._assumed)) == ("4", 0)


def test_assumed_versions_end_when_the_store_is_restored() -> None:
    """The server's store was restored from a backup: versions start again."""
    setting = Setting()
    setting.informer.show(at(1))
    setting.cache.assume(at(500))
    setting.informer.epoch += 1
    setting.informer.show(at(2))
    assert (setting.version, len(setting.cache._assumed)) == ("2", 0)


@pytest.mark.looptime
async def test_one_sync_at_a_time_locks_a_volume() -> None:
    """A claim that waits for the lock keeps others from choosing the volume."""
    locks, order = VolumeLocks(), list[str]()

    async def work(claim: str) -> None:
        async with locks.lock("v", claim):
            order.append(f"{claim} begins")
            await asyncio.sleep(1)
            order.append(f"{claim} ends")

    async with asyncio.TaskGroup() as group:
        group.create_task(work(""))
        await asyncio.sleep(0)
        assert not locks.is_taken("v", "ns/a")
        group.create_task(work("ns/a"))
        await asyncio.sleep(0)
        assert (locks.is_taken("v", "ns/a"), locks.is_taken("v", "ns/b")) == (
            False,
            True,
        )
    assert order == [" begins", " ends", "ns/a begins", "ns/a ends"]
    assert (len(locks._locks), locks.is_taken("v", "ns/b")) == (0, False)
