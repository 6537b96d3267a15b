"""The order in which ranges are given away, and the release of ranges."""

from ipaddress import ip_network
from typing import Any

import pytest

from controller_manager.controllers.nodes.nodeipam import NodeIPAMOptions
from controller_manager.controllers.nodes.nodeipam.ranges import (
    CIDRSet,
    ClusterRange,
    Settings,
    parse_network,
    read_settings,
)
from controller_manager.options.config import PodRangesConfig
from controller_manager.options.controller_options import InvalidConfiguration


def made(network: str, mask_size: int, *held: str) -> CIDRSet:
    ranges = CIDRSet(ip_network(network), mask_size)
    for each in held:
        ranges.occupy(ip_network(each))
    return ranges


def allocated(ranges: CIDRSet, count: int) -> list[str]:
    return [str(ranges.allocate()[0]) for _ in range(count)]


@pytest.mark.parametrize(
    ("network", "mask_size", "first"),
    [
        ("10.0.0.0/22", 24, ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24"]),
        ("10.0.0.0/24", 25, ["10.0.0.0/25", "10.0.0.128/25"]),
        ("10.0.0.0/24", 24, ["10.0.0.0/24"]),
        ("10.0.0.0/8", 32, ["10.0.0.0/32", "10.0.0.1/32"]),
        ("fd00:10:244::/61", 64, ["fd00:10:244::/64", "fd00:10:244:1::/64"]),
        ("beef:1234::/60", 76, ["beef:1234::/76", "beef:1234:0:0:10::/76"]),
        ("fd00::/112", 120, ["fd00::/120", "fd00::100/120"]),
    ],
)
def test_ranges_go_in_order(network: str, mask_size: int, first: list[str]) -> None:
    assert allocated(made(network, mask_size), len(first)) == first


def test_a_freed_range_is_used_again_only_after_those_beyond() -> None:
    ranges = made("10.0.0.0/22", 24)
    allocated(ranges, 2)
    ranges.release(ip_network("10.0.0.0/24"))
    assert allocated(ranges, 3) == ["10.0.2.0/24", "10.0.3.0/24", "10.0.0.0/24"]
    with pytest.raises(LookupError, match=r"^10\.0\.0\.0/22 has no free range left$"):
        ranges.allocate()
    ranges.release(ip_network("10.0.2.0/24"))
    assert allocated(ranges, 1) == ["10.0.2.0/24"]


@pytest.mark.parametrize(
    ("held", "taken", "left"),
    [
        ("10.0.1.0/24", 1, ["10.0.0.0/24", "10.0.2.0/24", "10.0.3.0/24"]),
        ("10.0.1.16/28", 1, ["10.0.0.0/24", "10.0.2.0/24", "10.0.3.0/24"]),
        ("10.0.0.0/23", 2, ["10.0.2.0/24", "10.0.3.0/24"]),
        ("10.0.2.0/23", 2, ["10.0.0.0/24", "10.0.1.0/24"]),
        ("10.0.0.0/16", 4, []),
        ("0.0.0.0/0", 4, []),
        ("10.0.4.0/24", 0, [f"10.0.{part}.0/24" for part in range(4)]),
        ("fd00::/64", 0, [f"10.0.{part}.0/24" for part in range(4)]),
    ],
)
def test_overlapping_ranges_are_held(held: str, taken: int, left: list[str]) -> None:
    ranges = made("10.0.0.0/22", 24)
    assert ranges.occupy(ip_network(held)) == taken == ranges.taken
    assert allocated(ranges, 4 - taken) == left
    assert ranges.is_exhausted
    assert ranges.release(ip_network(held)) == taken
    assert ranges.taken == 4 - taken


def test_a_range_is_free_when_its_last_holder_has_released_it() -> None:
    """Two nodes may have the same range, given to them by hand."""
    ranges = made("10.0.0.0/23", 24, "10.0.0.0/24", "10.0.0.0/24")
    assert ranges.taken == 1
    assert ranges.release(ip_network("10.0.0.0/24")) == 0
    assert allocated(ranges, 1) == ["10.0.1.0/24"]
    assert ranges.release(ip_network("10.0.0.0/24")) == 1
    assert allocated(ranges, 1) == ["10.0.0.0/24"]


def test_a_range_that_was_not_held_is_not_freed() -> None:
    ranges = made("10.0.0.0/23", 24)
    assert ranges.release(ip_network("10.0.0.0/23")) == 0
    assert ranges.taken == 0


def test_it_is_counted_how_many_ranges_were_tried() -> None:
    ranges = made("10.0.0.0/22", 24, "10.0.0.0/24", "10.0.2.0/23")
    assert ranges.allocate() == (ip_network("10.0.1.0/24"), 1)
    ranges.release(ip_network("10.0.0.0/24"))
    assert ranges.allocate() == (ip_network("10.0.0.0/24"), 2)


def read(cluster: str, allocator: str = "RangeAllocator", **options: Any) -> Settings:
    pods = PodRangesConfig(allocate=True, allocator=allocator, cluster=cluster)
    return read_settings(pods, NodeIPAMOptions(**options))


@pytest.mark.parametrize(
    ("cluster", "options", "expected"),
    [
        ("10.0.0.0/16", {}, [("10.0.0.0/16", 24)]),
        (" 10.0.0.1/16 ", {}, [("10.0.0.0/16", 24)]),
        ("10.0.0.0/16", {"mask_size": 26}, [("10.0.0.0/16", 26)]),
        ("10.0.0.0/16", {"mask_size_ipv4": 25}, [("10.0.0.0/16", 25)]),
        ("10.0.0.0/24", {}, [("10.0.0.0/24", 24)]),
        ("fd00::/48", {}, [("fd00::/48", 64)]),
        ("fd00::/112", {"mask_size": 120}, [("fd00::/112", 120)]),
        ("fd00::/56", {"mask_size_ipv6": 72}, [("fd00::/56", 72)]),
        ("10.0.0.0/16,fd00::/56", {}, [("10.0.0.0/16", 24), ("fd00::/56", 64)]),
        (
            "fd00::/56,10.0.0.0/16",
            {"mask_size_ipv4": 25, "mask_size_ipv6": 65},
            [("fd00::/56", 65), ("10.0.0.0/16", 25)],
        ),
    ],
)
def test_each_family_has_its_mask_size(
    cluster: str, options: dict[str, Any], expected: list[tuple[str, int]]
) -> None:
    ranges = tuple(ClusterRange(ip_network(text), size) for text, size in expected)
    assert read(cluster, **options) == Settings(ranges)


@pytest.mark.parametrize(
    ("cluster", "options", "complaint"),
    [
        ("", {}, "--cluster-cidr: give the range of the pods, --allocate-node-cidrs "),
        ("10.0.0.0", {}, "--cluster-cidr=10.0.0.0: '10.0.0.0' has no mask size; "),
        ("10.0.0/8", {}, "--cluster-cidr=10.0.0/8: .*; give a range such as "),
        ("10.0.0.0/16,", {}, "--cluster-cidr=10.0.0.0/16,: '' has no mask size; "),
        ("10.0.0.0/33", {}, "--cluster-cidr=10.0.0.0/33: .*; give a range such as "),
        (
            "10.0.0.0/16,10.1.0.0/16",
            {},
            "--cluster-cidr=.*: give one range, or one IPv4 and one IPv6 range$",
        ),
        (
            "10.0.0.0/16,fd00::/48,10.1.0.0/16",
            {},
            "--cluster-cidr=.*: give one range, or one IPv4 and one IPv6 range$",
        ),
        (
            "10.0.0.0/16,fd00::/56",
            {"mask_size": 25},
            "--node-cidr-mask-size=25: not with two families",
        ),
        (
            "10.0.0.0/16",
            {"mask_size": 25, "mask_size_ipv4": 25},
            "--node-cidr-mask-size=25: not with two families",
        ),
        (
            "fd00::/56",
            {"mask_size_ipv4": 25},
            "--node-cidr-mask-size-ipv4=25: --cluster-cidr has no IPv4 range",
        ),
        (
            "10.0.0.0/16",
            {"mask_size_ipv6": 64},
            "--node-cidr-mask-size-ipv6=64: --cluster-cidr has no IPv6 range",
        ),
        ("10.0.0.0/25", {}, "--cluster-cidr=10.0.0.0/25: .* from 25 to 32: "),
        ("10.0.0.0/16", {"mask_size": 33}, "--cluster-cidr=.* from 16 to 32: "),
        ("10.0.0.0/16", {"mask_size": -1}, "--cluster-cidr=.* from 16 to 32: "),
        ("fd00::/47", {}, "--cluster-cidr=fd00::/47: .* size 64; .* from 47 to 63: "),
        (
            "10.0.0.0/16",
            {"service_ranges": "10.1.0.0/16,10.2.0.0/16"},
            "--service-cluster-ip-range=.*: both ranges are IPv4; ",
        ),
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    cluster: str, options: dict[str, Any], complaint: str
) -> None:
    """As upstream does; one line names the flag and the remedy."""
    with pytest.raises(InvalidConfiguration, match=f"^{complaint}"):
        read(cluster, **options)


@pytest.mark.parametrize("allocator", ["CloudAllocator", "IPAMFromCluster", "x"])
def test_an_allocator_of_a_cloud_provider_is_refused(allocator: str) -> None:
    """Neither this build nor upstream has one."""
    with pytest.raises(
        InvalidConfiguration,
        match=f"^--cidr-allocator-type={allocator}: .*; use RangeAllocator$",
    ):
        read("10.0.0.0/16", allocator)


def test_an_invalid_range_of_services_is_ignored() -> None:
    """Upstream logs a warning and goes on."""
    found = read("10.0.0.0/16", service_ranges="10.96.0.0/12,nonsense")
    services = (ip_network("10.96.0.0/12"),)
    assert (found.services, found.unread) == (services, ("nonsense",))
    assert read("10.0.0.0/16", service_ranges="").unread == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("010.001.0.0/16", "10.1.0.0/16"),
        ("10.0.0.255/24", "10.0.0.0/24"),
        ("fd00:0010::/64", "fd00:10::/64"),
        ("0::0/8", "::/8"),
    ],
)
def test_ranges_are_read_as_upstream_reads_them(text: str, expected: str) -> None:
    assert parse_network(text) == ip_network(expected)


@pytest.mark.parametrize("text", ["10.0.0.0/255.0.0.0", "10.0.0.0/", "/8", "a/8", ""])
def test_other_texts_are_no_ranges(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_network(text)
