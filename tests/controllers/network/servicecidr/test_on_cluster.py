"""Ranges of services are protected on a cluster in memory, on virtual time."""

import asyncio
import json

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.api.networking.v1 import IP_ADDRESS_METADATA, SERVICE_CIDRS
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import NotFound
from controller_manager.client.rest.transport import Request, Response
from tests.clusters import Cluster, RecordingTransport, Write, make_config
from tests.controllers.network.servicecidr.builders import address_json
from tests.meddler import Meddler
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime

API = "networking.k8s.io/v1"
CONFIG = make_config(controllers=("service-cidr-controller",))
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
BLOCKED = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or "
    "create a new ServiceCIDR"
)


def add(cluster: Cluster, name: str, *ranges: str) -> None:
    """Create ranges."""
    cluster.add("ServiceCIDR", name, API, spec={"cidrs": [*ranges]})


def allocate(cluster: Cluster, address: str, **labels: str) -> None:
    """Create an address as the API server does for a service."""
    cluster.add("IPAddress", address, API, **address_json(address, **labels))


async def get(client: Client, name: str) -> JSON | None:
    """Return ranges as they are stored, `None` if they are gone."""
    try:
        return await client.get_json(SERVICE_CIDRS, "", name)
    except NotFound:
        return None


async def delete(client: Client, name: str, seconds: float = 60) -> None:
    """Delete ranges, and let the time pass that the controller needs."""
    await client.delete(SERVICE_CIDRS, "", name)
    await asyncio.sleep(seconds)


def sent(recording: RecordingTransport, name: str) -> list[tuple[str, JSON]]:
    """Return the paths and bodies of the writes to ranges, without uids."""
    return [
        (each.path.partition("servicecidrs/")[2], _body(each))
        for each in recording.writes
        if f"servicecidrs/{name}" in each.path
    ]


def _body(write: Write) -> JSON:
    body: JSON = json.loads(write.body)
    assert body["metadata"].pop("uid")
    return body


async def test_ranges_get_the_finalizer_and_are_ready(cluster: Cluster) -> None:
    """The controller writes twice, and not again later."""
    add(cluster, "new", "10.1.0.0/24", "fd00:1::/112")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(600)
        found = await get(cluster.client, "new")
    now = "2026-01-01T00:00:00Z"
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "",
        "message": "Kubernetes Service CIDR is ready",
        "lastTransitionTime": now,
    }
    assert found is not None
    assert found["metadata"]["finalizers"] == [FINALIZER]
    assert found["status"] == {"conditions": [condition]}
    assert sent(recording, "new") == [
        ("new", {"metadata": {"finalizers": [FINALIZER]}}),
        (
            "new/status",
            {
                "apiVersion": API,
                "kind": "ServiceCIDR",
                "metadata": {"name": "new"},
                "status": {"conditions": [condition]},
            },
        ),
    ]
    owners = [
        (each["manager"], each["operation"])
        for each in found["metadata"]["managedFields"]
        if each.get("subresource") == "status"
    ]
    # The range existed before managed fields were recorded.
    assert owners == [
        ("service-cidr-controller", "Apply"),
        ("before-first-apply", "Update"),
    ]


async def test_a_removed_finalizer_or_condition_is_restored(cluster: Cluster) -> None:
    """Another client has removed it."""
    add(cluster, "new", "10.1.0.0/24")
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        before = await get(cluster.client, "new")
        assert before is not None
        patch = {"metadata": {"finalizers": None}}
        await cluster.client.patch(SERVICE_CIDRS, "", "new", patch)
        status = {"status": {"conditions": None}}
        await cluster.client.patch(
            SERVICE_CIDRS, "", "new", status, subresource="status"
        )
        await asyncio.sleep(1)
        after = await get(cluster.client, "new")
    assert after is not None
    assert after["metadata"]["finalizers"] == [FINALIZER]
    assert after["status"]["conditions"][0]["status"] == "True"


async def test_an_unused_range_goes_after_ten_seconds(cluster: Cluster) -> None:
    """By then no API server uses it; addresses of other allocators do not count."""
    add(cluster, "old", "10.1.0.0/24")
    allocate(cluster, "10.1.0.0")
    allocate(cluster, "10.1.0.9", mine="yes")
    allocate(cluster, "10.2.0.1")
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        await delete(cluster.client, "old", 9)
        assert await get(cluster.client, "old") is not None
        await asyncio.sleep(2)
        assert await get(cluster.client, "old") is None


async def test_a_range_in_use_stays_until_its_last_address_is_free(
    cluster: Cluster,
) -> None:
    """Its condition has the reason; addresses are checked when one is freed."""
    add(cluster, "old", "10.1.0.0/24")
    for number in (1, 2):
        allocate(cluster, f"10.1.0.{number}")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        await delete(cluster.client, "old")
        found = await get(cluster.client, "old")
        assert found is not None
        (condition,) = found["status"]["conditions"]
        assert (condition["status"], condition["reason"], condition["message"]) == (
            "False",
            "Terminating",
            BLOCKED,
        )
        writes = len(recording.writes)
        await cluster.client.delete(IP_ADDRESS_METADATA, "", "10.1.0.1")
        await asyncio.sleep(60)
        assert await get(cluster.client, "old") is not None
        assert len(recording.writes) == writes
        await cluster.client.delete(IP_ADDRESS_METADATA, "", "10.1.0.2")
        await asyncio.sleep(1)
        assert await get(cluster.client, "old") is None


async def test_a_range_goes_if_another_holds_its_addresses(cluster: Cluster) -> None:
    """Also if the other range is created later."""
    add(cluster, "old", "10.1.0.0/24")
    allocate(cluster, "10.1.0.1")
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        await delete(cluster.client, "old")
        assert await get(cluster.client, "old") is not None
        add(cluster, "large", "10.1.0.0/16")
        await asyncio.sleep(1)
        assert await get(cluster.client, "old") is None
        await delete(cluster.client, "large")
        assert await get(cluster.client, "large") is not None


async def test_of_two_ranges_that_are_deleted_together_one_stays(
    cluster: Cluster,
) -> None:
    """Upstream releases both, each because of the other: the address has no range."""
    for name in ("a", "b"):
        add(cluster, name, "10.1.0.0/24")
    allocate(cluster, "10.1.0.1")

    async def write_slowly(request: Request) -> None:
        if request.method == "PATCH":  # so neither sees that the other is released
            await asyncio.sleep(1)

    async with cluster.manager(CONFIG, Meddler(cluster.transport, write_slowly)):
        await asyncio.sleep(5)
        await delete(cluster.client, "a", 0)
        await delete(cluster.client, "b")
        left = [name for name in ("a", "b") if await get(cluster.client, name)]
        assert left == ["b"]
        await cluster.client.delete(IP_ADDRESS_METADATA, "", "10.1.0.1")
        await asyncio.sleep(2)
        assert await get(cluster.client, "b") is None


async def test_a_range_is_kept_for_an_address_that_the_cache_lacks(
    cluster: Cluster,
) -> None:
    """Upstream trusts its cache, and releases the range."""
    add(cluster, "old", "10.1.0.0/24")
    watches = SilentWatches(cluster.transport)
    async with cluster.manager(CONFIG, watches):
        await asyncio.sleep(1)
        watches.silence("ipaddresses")
        allocate(cluster, "10.1.0.1")
        await delete(cluster.client, "old")
        assert await get(cluster.client, "old") is not None
        watches.speak("ipaddresses")
        await cluster.client.delete(IP_ADDRESS_METADATA, "", "10.1.0.1")
        await asyncio.sleep(1)
        assert await get(cluster.client, "old") is None


async def test_a_status_that_cannot_be_written_is_an_event(cluster: Cluster) -> None:
    """And is tried again."""
    add(cluster, "new", "10.1.0.0/24")

    async def refuse(request: Request) -> Response | None:
        if request.path.endswith("/status"):
            return Response(403, {}, b'{"kind": "Status", "reason": "Forbidden"}')
        return None

    meddler = Meddler(cluster.transport, refuse)
    async with cluster.manager(CONFIG, meddler):
        await asyncio.sleep(1)
        meddler.meddle = None
        await asyncio.sleep(60)
        found = await get(cluster.client, "new")
        events = (await cluster.client.raw("GET", "/api/v1/events")).body
    assert found is not None
    assert found["status"]["conditions"][0]["status"] == "True"
    (event,) = {
        (each["reason"], each["source"]["component"], each["message"])
        for each in json.loads(events)["items"]
    }
    assert event == (
        "KubernetesServiceCIDRError",
        "service-cidr-controller",
        "The ServiceCIDR Status can not be set to Ready=True",
    )


async def test_its_role_is_enough() -> None:
    """It patches ranges and their status, and lists addresses."""
    cluster = Cluster(rbac=True)
    add(cluster, "old", "10.1.0.0/24")
    config = make_config(
        controllers=("service-cidr-controller",), use_service_account_credentials=True
    )
    async with cluster.confined_manager(config) as recording:
        await asyncio.sleep(1)
        await delete(cluster.client, "old")
        assert await get(cluster.client, "old") is None
    assert {each.status for each in recording.writes} <= {200, 201}
