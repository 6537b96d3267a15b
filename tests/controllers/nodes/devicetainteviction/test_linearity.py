"""The cost of a pool with many slices: each slice and each pod costs the same."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.api.dynamicresources.v1 import RESOURCE_SLICES, ResourceSlice
from controller_manager.api.meta import is_deleting
from controller_manager.informers.store import Index, Store
from tests.clusters import Cluster
from tests.controllers.nodes.devicetainteviction.fixtures import (
    TAINT,
    add_slice,
    add_user,
    config,
    device,
    publish,
    tolerating,
)

pytestmark = pytest.mark.looptime


@contextmanager
def slices_looked_at() -> Iterator[list[int]]:
    """Count the slices that each look-up in a cache returns."""
    looked: list[int] = []
    by_index = Store.by_index

    def counting(self: Store[Any], index: Index, value: str) -> Sequence[Any]:
        found = by_index(self, index, value)
        if found and isinstance(found[0], ResourceSlice):
            looked.append(len(found))
        return found

    with mock.patch.object(Store, "by_index", counting):
        yield looked


async def _terminating(cluster: Cluster) -> set[str]:
    pods = await cluster.client.list_page(PODS)
    return {each.metadata.name for each in pods.items if is_deleting(each)}


async def _cost_of_slices(count: int) -> int:
    """Return the number of slices that are read while a pool is published in parts."""
    cluster = Cluster()
    async with cluster.manager(config()):
        with slices_looked_at() as looked:
            for number in range(count):
                add_slice(cluster, f"s{number}", device(f"d{number}", TAINT))
                await asyncio.sleep(1)
    return sum(looked)


async def test_the_slices_of_a_pool_cost_in_proportion_to_their_number() -> None:
    """A new slice concerns no device of another slice, unless its generation is new."""
    few, many = await _cost_of_slices(10), await _cost_of_slices(40)
    assert few > 0
    assert many <= 4 * few


async def _cost_of_pods(count: int) -> int:
    """Return the number of slices that are read for pods with a slice each."""
    cluster = Cluster()
    for number in range(count):
        add_slice(cluster, f"s{number}", device(f"d{number}", TAINT))
        waits = (tolerating(100),)
        await add_user(cluster, f"p{number}", f"d{number}", tolerations=waits)
    async with cluster.manager(config()):
        with slices_looked_at() as looked:
            await asyncio.sleep(50)
            await publish(cluster, "s1", device("d1"))
            await asyncio.sleep(100)
            left = {f"p{number}" for number in range(count)} - {"p1"}
            assert await _terminating(cluster) == left
    return sum(looked)


async def test_the_pods_of_a_pool_cost_in_proportion_to_their_number() -> None:
    """The slice of a device is found by an index."""
    few, many = await _cost_of_pods(10), await _cost_of_pods(40)
    assert few > 0
    # Four times, and more where a slow machine ends turns early; a scan costs 16 times.
    assert many <= 8 * few


async def test_a_new_generation_of_a_pool_concerns_all_its_devices() -> None:
    """Devices of older slices stop counting, until the new generation is gone."""
    cluster = Cluster()
    for number in range(3):
        add_slice(cluster, f"s{number}", device(f"d{number}", TAINT))
        waits = (tolerating(100),)
        await add_user(cluster, f"p{number}", f"d{number}", tolerations=waits)
    async with cluster.manager(config()):
        await asyncio.sleep(10)
        add_slice(cluster, "new", device("d0"), generation=2)
        await asyncio.sleep(200)
        assert await _terminating(cluster) == set()
        await cluster.client.delete(RESOURCE_SLICES, "", "new")
        await asyncio.sleep(200)
        assert await _terminating(cluster) == {"p0", "p1", "p2"}
