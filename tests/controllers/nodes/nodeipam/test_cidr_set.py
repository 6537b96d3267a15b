"""The order in which ranges are given away, and the release of ranges."""

from ipaddress import ip_network

import pytest

from controller_manager.controllers.nodes.nodeipam.ranges import CIDRSet


def made(network: str, mask_size: int, *held: str) -> CIDRSet:
    """Return the ranges of a network, some of which are held."""
    ranges = CIDRSet(ip_network(network), mask_size)
    for each in held:
        ranges.occupy(ip_network(each))
    return ranges


def allocated(ranges: CIDRSet, count: int) -> list[str]:
    """Return the next ranges."""
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
def test_ranges_are_given_away_in_order(
    network: str, mask_size: int, first: list[str]
) -> None:
    """From the first address on, in both families."""
    assert allocated(made(network, mask_size), len(first)) == first


def test_a_freed_range_is_used_again_only_after_those_beyond() -> None:
    """So the addresses of a deleted node stay unused for long."""
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
def test_every_range_that_overlaps_is_held(
    held: str, taken: int, left: list[str]
) -> None:
    """Smaller and larger ranges are held; they are freed as they were held."""
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
    """The count stays right."""
    ranges = made("10.0.0.0/23", 24)
    assert ranges.release(ip_network("10.0.0.0/23")) == 0
    assert ranges.taken == 0


def test_it_is_counted_how_many_ranges_were_tried() -> None:
    """The number includes the taken ranges behind the last range that was given."""
    ranges = made("10.0.0.0/22", 24, "10.0.0.0/24", "10.0.2.0/23")
    assert ranges.allocate() == (ip_network("10.0.1.0/24"), 1)
    ranges.release(ip_network("10.0.0.0/24"))
    assert ranges.allocate() == (ip_network("10.0.0.0/24"), 2)
