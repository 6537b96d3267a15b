"""The addresses that still need a deleted range, as tables."""

from ipaddress import ip_address

import pytest

from controller_manager.api.meta import PartialMetadata, PartialObject
from controller_manager.api.networking.v1 import ALLOCATOR, MANAGED_BY, ServiceCIDR
from controller_manager.controllers.network.servicecidr.cidrs import (
    allocated_address,
    holds,
    is_covered,
    successors,
    uncovered_address,
)
from tests.controllers.network.servicecidr.builders import service_cidr

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
    """The last range that holds an address is not released."""
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
    "smaller ranges": (
        [service_cidr("a", "192.168.0.0/25", "2001:db2::/64")],
        False,
    ),
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
    """Return the metadata of an address."""
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
    """Whatever its size."""
    assert allocated_address(address(name)) == ip_address(name)
    assert holds(service_cidr("x", text), ip_address(name)) is inside


def test_other_addresses_are_not_found() -> None:
    """Addresses that the API server has not allocated do not keep a range."""
    assert allocated_address(address("10.0.0.1", "somebody")) is None
    assert allocated_address(address("no-address")) is None
