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
from controller_manager.controllers.network.servicecidr.cidrs import (
    allocated_address,
    holds,
    is_covered,
    successors,
    uncovered_address,
)
from tests.clusters import RecordingTransport, Write, make_config
from tests.controllers.hands import Before, Hands
from tests.controllers.network.servicecidr.builders import address_json, service_cidr
from tests.controllers.responses import refusal
from tests.controllers.rows import rows
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime

API = "networking.k8s.io/v1"
CONFIG = make_config(controllers=("service-cidr-controller",))
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
BLOCKED = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or "
    "create a new ServiceCIDR"
)


class Ranges(Hands):
    """A cluster with ranges of services, and addresses in them."""

    def add_range(self, name: str, *ranges: str) -> None:
        self.put(SERVICE_CIDRS, name, spec={"cidrs": [*ranges]})

    def allocate(self, address: str, **labels: str) -> None:
        self.put(IP_ADDRESS_METADATA, address, **address_json(address, **labels))

    def free(self, address: str) -> None:
        self.remove(IP_ADDRESS_METADATA, address)

    def has(self, name: str) -> bool:
        return name in self.names(SERVICE_CIDRS)

    async def delete(self, name: str, seconds: float = 60) -> None:
        """Delete ranges, and let the time pass that the controller needs."""
        self.remove(SERVICE_CIDRS, name)
        await asyncio.sleep(seconds)


@pytest.fixture
async def cluster() -> Ranges:
    return Ranges()


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


async def test_ranges_get_the_finalizer_and_are_ready(cluster: Ranges) -> None:
    """The controller writes twice, and not again later."""
    cluster.add_range("new", "10.1.0.0/24", "fd00:1::/112")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(600)
        found = await cluster.client.get_json(SERVICE_CIDRS, "", "new")
    now = "2026-01-01T00:00:00Z"
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "",
        "message": "Kubernetes Service CIDR is ready",
        "lastTransitionTime": now,
    }
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


async def test_a_removed_finalizer_or_condition_is_restored(cluster: Ranges) -> None:
    cluster.add_range("new", "10.1.0.0/24")
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        metadata, status = {"finalizers": None}, {"conditions": None}
        cluster.edit(SERVICE_CIDRS, "new", metadata=metadata, status=status)
        await asyncio.sleep(1)
    after = cluster.stored(SERVICE_CIDRS, "new")
    assert after["metadata"]["finalizers"] == [FINALIZER]
    assert after["status"]["conditions"][0]["status"] == "True"


async def test_an_unused_range_goes_after_ten_seconds(cluster: Ranges) -> None:
    cluster.add_range("old", "10.1.0.0/24")
    cluster.allocate("10.1.0.0")
    cluster.allocate("10.1.0.9", mine="yes")
    cluster.allocate("10.2.0.1")
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        await cluster.delete("old", 9)
        assert cluster.has("old")
        await asyncio.sleep(2)
        assert not cluster.has("old")


async def test_a_range_in_use_stays_until_its_last_address_is_free(
    cluster: Ranges,
) -> None:
    cluster.add_range("old", "10.1.0.0/24")
    for number in (1, 2):
        cluster.allocate(f"10.1.0.{number}")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        await cluster.delete("old")
        (found,) = cluster.stored(SERVICE_CIDRS, "old")["status"]["conditions"]
        why = found["status"], found["reason"], found["message"]
        assert why == ("False", "Terminating", BLOCKED)
        writes = len(recording.writes)
        cluster.free("10.1.0.1")
        await asyncio.sleep(60)
        assert cluster.has("old")
        assert len(recording.writes) == writes
        cluster.free("10.1.0.2")
        await asyncio.sleep(1)
        assert not cluster.has("old")


async def test_a_range_goes_if_another_holds_its_addresses(cluster: Ranges) -> None:
    cluster.add_range("old", "10.1.0.0/24")
    cluster.allocate("10.1.0.1")
    async with cluster.manager(CONFIG):
        await asyncio.sleep(1)
        await cluster.delete("old")
        assert cluster.has("old")
        cluster.add_range("large", "10.1.0.0/16")
        await asyncio.sleep(1)
        assert not cluster.has("old")
        await cluster.delete("large")
        assert cluster.has("large")


async def test_of_two_ranges_that_are_deleted_together_one_stays(
    cluster: Ranges,
) -> None:
    """Upstream releases both, each because of the other: the address has no range."""
    for name in ("a", "b"):
        cluster.add_range(name, "10.1.0.0/24")
    cluster.allocate("10.1.0.1")

    # So neither sees that the other is released.
    slow = Before(cluster, "PATCH", "", lambda: asyncio.sleep(1), times=99)
    async with cluster.manager(CONFIG, slow):
        await asyncio.sleep(5)
        await cluster.delete("a", 0)
        await cluster.delete("b")
        left = [name for name in ("a", "b") if cluster.has(name)]
        assert left == ["b"]
        cluster.free("10.1.0.1")
        await asyncio.sleep(2)
        assert not cluster.has("b")


async def test_a_range_is_kept_for_an_address_that_the_cache_lacks(
    cluster: Ranges,
) -> None:
    """Upstream trusts its cache, and releases the range."""
    cluster.add_range("old", "10.1.0.0/24")
    watches = SilentWatches(cluster.transport)
    async with cluster.manager(CONFIG, watches):
        await asyncio.sleep(1)
        watches.silence("ipaddresses")
        cluster.allocate("10.1.0.1")
        await cluster.delete("old")
        assert cluster.has("old")
        watches.speak("ipaddresses")
        cluster.free("10.1.0.1")
        await asyncio.sleep(1)
        assert not cluster.has("old")


async def test_a_status_that_cannot_be_written_is_an_event(cluster: Ranges) -> None:
    cluster.add_range("new", "10.1.0.0/24")

    error = refusal(403, "Forbidden")
    refusing = Before(cluster, "PATCH", "/status", lambda: error, times=99)
    async with cluster.manager(CONFIG, refusing):
        await asyncio.sleep(1)
        refusing.times = 0
        await asyncio.sleep(60)
    found = cluster.stored(SERVICE_CIDRS, "new")
    assert found["status"]["conditions"][0]["status"] == "True"
    by = "[service-cidr-controller]"
    message = "The ServiceCIDR Status can not be set to Ready=True"
    assert cluster.told() == [
        f"{each} Warning KubernetesServiceCIDRError {by}: {message}"
        for each in ("kubernetes", "new")
    ]


async def test_its_role_is_enough() -> None:
    cluster = Ranges(rbac=True)
    cluster.add_range("old", "10.1.0.0/24")
    config = make_config(
        controllers=("service-cidr-controller",), use_service_account_credentials=True
    )
    async with cluster.confined_manager(config) as recording:
        await asyncio.sleep(1)
        await cluster.delete("old")
        assert not cluster.has("old")
    assert {each.status for each in recording.writes} <= {200, 201}


BOTH = ("192.168.0.0/24", "2001:db2::/64")
DEFAULT = service_cidr("default", *BOTH)

SMALL = service_cidr("small", "192.168.0.0/28")
LARGE = service_cidr("large", "192.168.0.0/16")
LARGE_6 = service_cidr("large", "2001:db2::/48")


@rows(
    "others text held",
    {
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
        "a smaller range without it": ([SMALL], "192.168.0.23", True),
        "the last of a smaller range": ([SMALL], "192.168.0.15", True),
        "a larger range": ([LARGE], "192.168.0.23", False),
        "a larger range of the other family": ([LARGE_6], "192.168.0.23", True),
        "of IPv6": ([LARGE], "2001:db2::1", True),
    },
)
def test_a_range_holds_the_addresses_that_may_be_allocated_from_it(
    others: list[ServiceCIDR], text: str, held: bool
) -> None:
    found = uncovered_address(DEFAULT, others, map(address, ("10.0.0.1", text)))
    assert found == (ip_address(text) if held else None)


@rows(
    "others covered",
    {
        "nobody else": ([], False),
        "the same ranges": ([service_cidr("same", *BOTH)], True),
        "larger ranges of two objects": ([LARGE, LARGE_6], True),
        "one family": ([LARGE], False),
        "smaller ranges": (
            [service_cidr("a", "192.168.0.0/25", "2001:db2::/64")],
            False,
        ),
        "ranges elsewhere": ([service_cidr("a", "10.0.0.0/8", "2002::/16")], False),
    },
)
def test_a_range_is_covered_by_larger_ones(
    others: list[ServiceCIDR], covered: bool
) -> None:
    """Each family may be covered by another object."""
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
