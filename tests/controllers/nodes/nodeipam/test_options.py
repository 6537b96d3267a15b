"""The settings of the flags, and the combinations that are refused."""

from ipaddress import ip_network
from typing import Any

import pytest

from controller_manager.controllers.nodes.nodeipam import NodeIPAMOptions
from controller_manager.controllers.nodes.nodeipam.ranges import (
    ClusterRange,
    Settings,
    parse_network,
    read_settings,
)
from controller_manager.options.config import PodRangesConfig
from controller_manager.options.controller_options import InvalidConfiguration


def read(cluster: str, allocator: str = "RangeAllocator", **options: Any) -> Settings:
    """Return the settings of flags."""
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
    """In the order of the cluster's ranges."""
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
    """Leading zeros and bits beyond the mask do not matter."""
    assert parse_network(text) == ip_network(expected)


@pytest.mark.parametrize("text", ["10.0.0.0/255.0.0.0", "10.0.0.0/", "/8", "a/8", ""])
def test_other_texts_are_no_ranges(text: str) -> None:
    """Not even texts that Python accepts."""
    with pytest.raises(ValueError, match=r"."):
        parse_network(text)
