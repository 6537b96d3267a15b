"""Requests for the status of pools get a response, on a cluster in memory."""

import asyncio
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.dynamicresources.v1alpha3 import (
    RESOURCE_POOL_STATUS_REQUESTS,
    ResourcePoolStatusRequest,
)
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.errors import NotFound
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.resource.resourcepoolstatusrequest.controller import (  # noqa: E501 - a long path
    PoolStatusMetrics,
)
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, Write, make_config
from tests.meddler import Meddler

pytestmark = pytest.mark.looptime

CONFIG: Final = make_config(
    controllers=("resourcepoolstatusrequest-controller", "ttl"),
    use_service_account_credentials=True,
)
ENABLED: Final = replace(CONFIG, features=FeatureGates({"DRAResourcePoolStatus": True}))
API: Final = "resource.k8s.io"
DRIVER: Final = "gpu.example.com"


def ask(cluster: Cluster, name: str = "r", **spec: Any) -> None:
    wanted = {"driver": DRIVER, **spec}
    cluster.add("ResourcePoolStatusRequest", name, f"{API}/v1alpha3", spec=wanted)


def add_slice(
    cluster: Cluster, named: str, devices: int, driver: str = DRIVER, **pool: Any
) -> None:
    defaults = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {
        "driver": driver,
        "pool": {**defaults, **pool},
        "nodeName": "n",
        "devices": [{"name": f"d{number}"} for number in range(devices)],
    }
    cluster.add("ResourceSlice", named, f"{API}/v1", spec=spec)


def add_claim(cluster: Cluster, name: str, *devices: str) -> None:
    results = [
        {"request": "r", "driver": DRIVER, "pool": "p", "device": each}
        for each in devices
    ]
    requests = [{"name": "r", "exactly": {"deviceClassName": "c", "count": 1}}]
    cluster.add(
        "ResourceClaim",
        name,
        f"{API}/v1",
        spec={"devices": {"requests": requests}},
        status={"allocation": {"devices": {"results": results}}},
    )


async def read(cluster: Cluster, name: str = "r") -> ResourcePoolStatusRequest | None:
    try:
        return await cluster.client.get(RESOURCE_POOL_STATUS_REQUESTS, "", name)
    except NotFound:
        return None


async def counts(cluster: Cluster, name: str = "r") -> list[tuple[Any, ...]] | None:
    """Return the numbers in the response to a request, `None` while there is none."""
    request = await read(cluster, name)
    assert request is not None
    if request.status is None:
        return None
    return [
        (
            each.pool_name,
            each.total_devices,
            each.allocated_devices,
            each.available_devices,
        )
        for each in request.status.pools or ()
    ]


def writes(found: list[Write]) -> list[tuple[str, str, int]]:
    return [
        (each.method, each.path.rpartition("v1alpha3/")[2], each.status)
        for each in found
        if "v1alpha3" in each.path
    ]


async def test_a_request_is_answered_once_and_deleted_an_hour_later() -> None:
    """The role of the controller suffices."""
    cluster = Cluster(rbac=True)
    add_slice(cluster, "s", 4)
    add_slice(cluster, "other", 4, "other.example.com", name="q")
    add_claim(cluster, "a", "d0", "d1")
    async with cluster.confined_manager(ENABLED) as recording:
        ask(cluster)
        await asyncio.sleep(1)
        request = await read(cluster)
        assert request is not None
        assert request.status is not None
        assert request.status.pool_count == 1
        (condition,) = request.status.conditions or ()
        assert (condition.type, condition.status) == ("Complete", "True")
        assert condition.reason == "CalculationComplete"
        assert condition.message == "Calculated status for 1 pools"
        (pool,) = request.status.pools or ()
        assert (pool.driver, pool.node_name) == (DRIVER, "n")
        assert (pool.unavailable_devices, pool.validation_error) == (0, None)
        assert await counts(cluster) == [("p", 4, 2, 2)]
        add_slice(cluster, "t", 4, name="late")
        await asyncio.sleep(3590)
        assert await counts(cluster) == [("p", 4, 2, 2)]
        await asyncio.sleep(20)
        assert await read(cluster) is None
    path = "resourcepoolstatusrequests/r"
    assert writes(recording.writes) == [
        ("PUT", f"{path}/status", 200),
        ("DELETE", path, 200),
    ]
    preconditions = recording.writes[-1].body
    assert b"uid" in preconditions


async def test_a_driver_without_pools_has_none() -> None:
    """The response shows that."""
    cluster = Cluster()
    ask(cluster)
    async with cluster.manager(ENABLED):
        await asyncio.sleep(1)
    request = await read(cluster)
    assert request is not None
    assert request.status is not None
    assert (request.status.pool_count, request.status.pools) == (0, None)


async def test_a_request_waits_for_all_slices_of_its_pools() -> None:
    """Upstream gives up after five retries; other requests do not wait."""
    cluster = Cluster()
    add_slice(cluster, "first", 2, resourceSliceCount=2)
    ask(cluster)
    ask(cluster, "other", driver="other.example.com")
    async with cluster.manager(ENABLED) as recording:
        await asyncio.sleep(7200)
        assert await counts(cluster) is None
        assert writes(recording.writes)[0][1] == (
            "resourcepoolstatusrequests/other/status"
        )
        add_slice(cluster, "second", 3, resourceSliceCount=2)
        await asyncio.sleep(1)
        assert await counts(cluster) == [("p", 5, 0, 5)]


async def test_a_request_without_a_response_is_deleted_after_a_day() -> None:
    """It is not deleted earlier."""
    cluster = Cluster()
    add_slice(cluster, "first", 2, resourceSliceCount=2)
    ask(cluster)
    await asyncio.sleep(23 * 3600)
    async with cluster.manager(ENABLED):
        await asyncio.sleep(3540)
        assert await read(cluster) is not None
        await asyncio.sleep(120)
        assert await read(cluster) is None


async def test_a_manager_that_starts_late_still_answers() -> None:
    """An old request is deleted only if its pools are incomplete."""
    cluster = Cluster()
    add_slice(cluster, "s", 2)
    ask(cluster)
    await asyncio.sleep(25 * 3600)
    async with cluster.manager(ENABLED):
        await asyncio.sleep(60)
        assert await counts(cluster) == [("p", 2, 0, 2)]


async def test_a_refused_response_is_sent_again() -> None:
    """It has the numbers at the time of the retry."""
    cluster = Cluster()
    add_slice(cluster, "s", 2)
    failures = 2

    async def fail(request: Request) -> Response | None:
        nonlocal failures
        if request.method == "PUT" and "v1alpha3" in request.path and failures:
            failures -= 1
            return Response(HTTPStatus.INTERNAL_SERVER_ERROR, {}, b"{}")
        return None

    ask(cluster)
    async with cluster.manager(ENABLED, Meddler(cluster.transport, fail)):
        await asyncio.sleep(10)
    assert failures == 0
    assert await counts(cluster) == [("p", 2, 0, 2)]


async def test_only_requests_for_a_driver_are_reconciled() -> None:
    """A slice of that driver has changed."""
    cluster = Cluster()
    for number in range(20):
        driver = f"driver{number}.example.com"
        add_slice(cluster, f"s{number}", 1, driver, resourceSliceCount=2)
        ask(cluster, f"r{number}", driver=driver)
    async with cluster.manager(ENABLED) as recording:
        await asyncio.sleep(1)
        add_slice(cluster, "t", 1, "driver7.example.com", resourceSliceCount=2)
        await asyncio.sleep(1)
    path = "resourcepoolstatusrequests/r7/status"
    assert writes(recording.writes) == [("PUT", path, 200)]


def test_responses_are_counted_by_driver() -> None:
    """Their durations are observed; failures count twice, as upstream."""
    registry = CollectorRegistry()
    metrics = PoolStatusMetrics(registry)
    metrics.processed("d", 0.003, failed=False)
    metrics.processed("d", 0.001, failed=True)
    prefix, labels = (
        "resourcepoolstatusrequest_controller_request",
        {"driver_name": "d"},
    )
    found: JSON = {
        name: registry.get_sample_value(f"{prefix}{name}", labels)
        for name in (
            "s_processed_total",
            "_processing_errors_total",
            "_processing_duration_seconds_count",
        )
    }
    assert list(found.values()) == [2.0, 1.0, 2.0]


async def test_without_its_gate_it_does_not_run() -> None:
    """The gate is off by default."""
    cluster = Cluster()
    ask(cluster)
    async with cluster.manager(CONFIG):
        await asyncio.sleep(60)
    assert await counts(cluster) is None
