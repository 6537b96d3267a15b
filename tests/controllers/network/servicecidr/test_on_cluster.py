"""Ranges of services are protected on a cluster in memory, on virtual time."""

import asyncio
import json
from ipaddress import ip_address

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import PartialMetadata, PartialObject
from controller_manager.api.networking.v1 import (
    ALLOCATOR,
    IP_ADDRESS_METADATA,
    MANAGED_BY,
    SERVICE_CIDRS,
    ServiceCIDR,
)
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import NotFound
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.network.servicecidr.cidrs import (
    allocated_address,
    holds,
    is_covered,
    successors,
    uncovered_address,
)
from tests.clusters import Cluster, RecordingTransport, Write, make_config
from tests.controllers.network.servicecidr.builders import address_json, service_cidr
from tests.meddler import Meddler
from tests.runtime.silence import SilentWatches

API = "networking.k8s.io/v1"
CONFIG = make_config(controllers=("service-cidr-controller",))
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
BLOCKED = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or "
    "create a new ServiceCIDR"
)


def add(cluster: Cluster, name: str, *ranges: str) -> None:
    cluster.add("ServiceCIDR", name, API, spec={"cidrs": [*ranges]})


def allocate(cluster: Cluster, address: str, **labels: str) -> None:
    cluster.add("IPAddress", address, API, **address_json(address, **labels))


async def get(client: Client, name: str) -> JSON | None:
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


@pytest.mark.looptime
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


@pytest.mark.looptime
async def test_a_removed_finalizer_or_condition_is_restored(cluster: Cluster) -> None:
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


@pytest.mark.looptime
async def test_an_unused_range_goes_after_ten_seconds(cluster: Cluster) -> None:
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


@pytest.mark.looptime
async def test_a_range_in_use_stays_until_its_last_address_is_free(
    cluster: Cluster,
) -> None:
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


@pytest.mark.looptime
async def test_a_range_goes_if_another_holds_its_addresses(cluster: Cluster) -> None:
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


@pytest.mark.looptime
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


@pytest.mark.looptime
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


@pytest.mark.looptime
async def test_a_status_that_cannot_be_written_is_an_event(cluster: Cluster) -> None:
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


@pytest.mark.looptime
async def test_its_role_is_enough() -> None:
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


BOTH = ("192.168.0.0/24", "2001:db2::/64")
DEFAULT = service_cidr("default", *BOTH)

HELD: dict[str, tuple[list[ServiceCIDR], str, bool]] = {
    "nobody else": ([], "192.168.0.24", True),
    "an address elsewhere": ([], "192.168.1.24", False),
    "the first address": ([], "192.168.0.0", False),
    "the last of IPv4": ([], "192.168.0.255", False),
    "the last of IPv6": ([], "2001:db2::ffff:ffff:ffff:ffff", True),
    "the first of IPv6": ([], "2001:db2::", False),
    "the same ranges": ([service_cidr("same", *BOTH)], "192.168.0.23", False),
    "a smaller range with it": (
        [service_cidr("small", "192.168.0.0/26")],
        "192.168.0.23",
        False,
    ),
    "a smaller range without it": (
        [service_cidr("small", "192.168.0.0/28")],
        "192.168.0.23",
        True,
    ),
    "the last of a smaller range": (
        [service_cidr("small", "192.168.0.0/28")],
        "192.168.0.15",
        True,
    ),
    "a larger range": (
        [service_cidr("large", "192.168.0.0/16")],
        "192.168.0.23",
        False,
    ),
    "a larger range of the other family": (
        [service_cidr("large", "2001:db2::/48")],
        "192.168.0.23",
        True,
    ),
    "of IPv6": ([service_cidr("large", "192.168.0.0/16")], "2001:db2::1", True),
}


@pytest.mark.parametrize("name", HELD)
def test_a_range_holds_the_addresses_that_may_be_allocated_from_it(name: str) -> None:
    others, text, held = HELD[name]
    found = uncovered_address(DEFAULT, others, map(address, ("10.0.0.1", text)))
    assert found == (ip_address(text) if held else None)


COVERED: dict[str, tuple[list[ServiceCIDR], bool]] = {
    "nobody else": ([], False),
    "the same ranges": ([service_cidr("same", *BOTH)], True),
    "larger ranges of two objects": (
        [service_cidr("a", "192.168.0.0/16"), service_cidr("b", "2001:db2::/48")],
        True,
    ),
    "one family": ([service_cidr("a", "192.168.0.0/16")], False),
    "smaller ranges": ([service_cidr("a", "192.168.0.0/25", "2001:db2::/64")], False),
    "ranges elsewhere": ([service_cidr("a", "10.0.0.0/8", "2002::/16")], False),
}


@pytest.mark.parametrize("name", COVERED)
def test_a_range_is_covered_by_larger_ones(name: str) -> None:
    """Each family may be covered by another object."""
    others, covered = COVERED[name]
    assert is_covered(DEFAULT, others) is covered


def test_of_ranges_that_are_deleted_the_last_one_keeps_the_addresses() -> None:
    """Upstream releases two of them at a time, each because of the other."""
    first = service_cidr("a", *BOTH, deleted="2026-01-01T00:00:01Z")
    second = service_cidr("c", *BOTH, deleted="2026-01-01T00:00:02Z")
    third = service_cidr("b", *BOTH, deleted="2026-01-01T00:00:02Z")
    every = [DEFAULT, first, second, third]
    names = {
        each.metadata.name: [other.metadata.name for other in successors(each, every)]
        for each in every
    }
    assert names["a"] == ["default", "c", "b"]
    assert names["b"] == ["default", "c"]
    assert names["c"] == ["default"]


def address(name: str, managed_by: str = ALLOCATOR) -> PartialObject:
    return PartialObject(
        metadata=PartialMetadata(name=name, labels={MANAGED_BY: managed_by})
    )


@pytest.mark.parametrize(
    ("text", "name", "inside"),
    [
        ("10.0.0.0/12", "10.15.255.254", True),
        ("10.0.0.0/12", "10.16.0.1", False),
        ("10.0.3.0/24", "10.0.3.7", True),
        ("10.0.0.0/8", "10.255.0.1", True),
        ("0.0.0.0/0", "10.255.0.1", True),
        ("fd00:10::/108", "fd00:10::a", True),
        ("fd00:10::/108", "fd00:10:0:1::a", False),
        ("fd00::/16", "fd00:10:0:1::a", True),
    ],
)
def test_a_range_holds_its_addresses(text: str, name: str, *, inside: bool) -> None:
    assert allocated_address(address(name)) == ip_address(name)
    assert holds(service_cidr("x", text), ip_address(name)) is inside


def test_other_addresses_are_not_found() -> None:
    assert allocated_address(address("10.0.0.1", "somebody")) is None
    assert allocated_address(address("no-address")) is None
