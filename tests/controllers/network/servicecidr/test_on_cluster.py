"""Ranges of services are protected on a cluster in memory, on virtual time."""

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
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.hands import Hands
from tests.controllers.network.servicecidr.builders import address_json, service_cidr
from tests.controllers.rows import rows
from tests.controllers.scenarios import Scenario, scenarios


def config() -> Config:
    return make_config(
        controllers=("service-cidr-controller",), use_service_account_credentials=True
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

    def owners_of_status(self, name: str) -> list[str]:
        fields: list[JSON] = self.stored(SERVICE_CIDRS, name)["metadata"][
            "managedFields"
        ]
        found = [each for each in fields if each.get("subresource") == "status"]
        return [f"{each['manager']} {each['operation']}" for each in found]


@pytest.mark.looptime
@scenarios("network/servicecidr")
async def test_ranges_are_protected(scenario: Scenario) -> None:
    await scenario.play(Ranges, config)


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
def test_larger_ranges_cover_it(others: list[ServiceCIDR], covered: bool) -> None:
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
