"""A finalizer is added and removed without harm to those of others."""

import pytest

from controller_manager.api.core.v1 import CONFIG_MAPS, ConfigMap
from controller_manager.api.meta import ObjectMeta
from controller_manager.client.rest.errors import Conflict, NotFound
from controller_manager.runtime.finalizer import Finalizer
from tests.clusters import Cluster

CLEANUP = Finalizer("example.com/cleanup")
OTHER = "example.org/other"
WHERE = (CONFIG_MAPS, "default", "a")


async def create(cluster: Cluster) -> ConfigMap:
    metadata = ObjectMeta(name="a", namespace="default", finalizers=(OTHER,))
    return await cluster.client.create(CONFIG_MAPS, ConfigMap(metadata=metadata))


async def test_a_deleted_object_waits_for_the_clean_up() -> None:
    cluster = Cluster()
    held = await CLEANUP.add(cluster.client, CONFIG_MAPS, await create(cluster))
    assert held.metadata.finalizers == (OTHER, CLEANUP.name)
    assert not CLEANUP.must_clean_up(held)
    assert await CLEANUP.add(cluster.client, CONFIG_MAPS, held) is held
    await cluster.client.delete(*WHERE)
    deleted = await cluster.client.get(*WHERE)
    assert CLEANUP.must_clean_up(deleted)
    left = await CLEANUP.remove(cluster.client, CONFIG_MAPS, deleted)
    assert left.metadata.finalizers == (OTHER,)
    assert await CLEANUP.remove(cluster.client, CONFIG_MAPS, left) is left
    # It takes none any more.
    assert await CLEANUP.add(cluster.client, CONFIG_MAPS, left) is left
    await Finalizer(OTHER).remove(cluster.client, CONFIG_MAPS, left)
    with pytest.raises(NotFound):
        await cluster.client.get(*WHERE)


async def test_an_object_that_has_changed_is_a_conflict() -> None:
    """Otherwise a finalizer that somebody has just added would be lost."""
    cluster = Cluster()
    old = await create(cluster)
    await cluster.client.patch(*WHERE, {"data": {"x": "1"}})
    with pytest.raises(Conflict):
        await CLEANUP.add(cluster.client, CONFIG_MAPS, old)
