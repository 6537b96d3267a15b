"""The cost of a change of one pod does not grow with the service beyond its slices."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from controller_manager.api.discovery.v1 import Endpoint, EndpointSlice
from controller_manager.control.endpoints.slices import key_of_endpoint
from controller_manager.controllers.network.endpointslice import slices
from controller_manager.controllers.network.endpointslice.controller import (
    EndpointSliceReconciler,
)
from controller_manager.controllers.network.endpointslice.slices import Backend
from controller_manager.controllers.network.endpointslice.tracker import SettledSlices
from tests.clusters import Cluster
from tests.controllers.network.endpointslice.user import ServiceUser, slice_config

pytestmark = pytest.mark.looptime

FEW, MANY = 300, 5000


def address(number: int) -> str:
    return f"10.1.{number // 250}.{number % 250 + 1}"


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Count the pods, the endpoints and the slices that syncs check."""
    counted: Counter[str] = Counter()
    start_sync = SettledSlices.start_sync
    backends = EndpointSliceReconciler._backends
    key_of = key_of_endpoint

    def count_pods(
        self: EndpointSliceReconciler, sync: Any, names: tuple[str, ...], *args: str
    ) -> list[Backend]:
        counted["pods"] += len(names)
        return backends(self, sync, names, *args)

    def count_endpoints(endpoint: Endpoint) -> object:
        counted["endpoints"] += 1
        return key_of(endpoint)

    def count_slices(
        self: SettledSlices, cached: list[EndpointSlice], changed: Iterable[str]
    ) -> object:
        counted["syncs"] += 1
        counted["slices"] += len(cached)
        return start_sync(self, cached, changed)

    with (
        mock.patch.object(EndpointSliceReconciler, "_backends", count_pods),
        mock.patch.object(slices, "key_of_endpoint", count_endpoints),
        mock.patch.object(SettledSlices, "start_sync", count_slices),
    ):
        yield counted


async def cost_of_a_change(pods: int) -> Counter[str]:
    """Return the cost of the change of one pod of a service of so many pods."""
    cluster = Cluster()
    user = ServiceUser(cluster)
    user.add_node()
    user.add_service()
    user.add_service("other", selector={"app": "other"})
    for number in range(pods):
        user.add_pod(f"pod-{number:04}", address(number))
    async with cluster.manager(slice_config()) as recording:
        await asyncio.sleep(10)
        for name in ("pod-0001", "pod-0002"):  # both are in the first slice
            with counting() as counted:
                await user.set_status(name, address(int(name[4:])), ready=False)
                await asyncio.sleep(10)
    counted["writes"] = len(recording.writes) - pods // 100 - 2
    counted["bytes"] = len(recording.writes[-1].body)
    return counted


@pytest.mark.slow
async def test_a_change_of_one_pod_costs_its_slice() -> None:
    """One sync, one write of a hundred endpoints; only the slices grow in number.

    Each endpoint counts twice: as the pod has it, and as the slice has it.
    """
    few, many = await cost_of_a_change(FEW), await cost_of_a_change(MANY)
    assert (few.pop("slices"), many.pop("slices")) == (FEW // 100, MANY // 100)
    assert few.pop("bytes") == pytest.approx(many.pop("bytes"), rel=0.05)
    assert few == many == {"syncs": 1, "pods": 100, "endpoints": 200, "writes": 1}


async def test_pods_of_others_cost_nothing() -> None:
    """Pods of a namespace that no service selects are not read."""
    cluster = Cluster()
    user = ServiceUser(cluster)
    user.add_node()
    user.add_service()
    for number in range(100):
        labels = {"app": f"other-{number % 7}"}
        user.add_pod(f"pod-{number}", address(number), labels=labels)
    with counting() as counted:
        async with cluster.manager(slice_config()):
            await asyncio.sleep(10)
            await user.set_status("pod-1", address(1), ready=False)
            await asyncio.sleep(10)
    assert +counted == {"syncs": 1}


async def test_at_the_start_each_service_is_synced_once() -> None:
    """It is written once; a process that starts later writes nothing."""
    cluster = Cluster()
    user = ServiceUser(cluster)
    user.add_node()
    for number in range(20):
        user.add_service(f"web-{number}", selector={"app": f"web-{number}"})
        for each in range(10):
            labels = {"app": f"web-{number}"}
            user.add_pod(f"web-{number}-{each}", address(each), labels=labels)
    found = []
    for _ in range(2):
        with counting() as counted:
            async with cluster.manager(slice_config()) as recording:
                await asyncio.sleep(30)
        found.append((counted["syncs"], counted["pods"], len(recording.writes)))
    assert found == [(20, 200, 20), (20, 200, 0)]
