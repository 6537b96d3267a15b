"""At most 1,000 addresses stay."""

import random
from itertools import pairwise

import pytest

from controller_manager.api.core.services import EndpointAddress, EndpointSubset
from controller_manager.controllers.network.endpoints.desired import truncate

Sizes = tuple[int, int]


def subsets(*sizes: Sizes) -> tuple[EndpointSubset, ...]:
    """Return subsets with these numbers of ready and of not ready addresses."""

    def addresses(number: int, count: int) -> tuple[EndpointAddress, ...] | None:
        found = (EndpointAddress(ip=f"{number}.{each}") for each in range(count))
        return tuple(found) or None

    return tuple(
        EndpointSubset(
            addresses=addresses(2 * number, ready),
            not_ready_addresses=addresses(2 * number + 1, not_ready),
        )
        for number, (ready, not_ready) in enumerate(sizes)
    )


def sizes_of(found: tuple[EndpointSubset, ...]) -> list[Sizes]:
    return [
        (len(each.addresses or ()), len(each.not_ready_addresses or ()))
        for each in found
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([(500, 500)], [(500, 500)], id="just enough"),
        pytest.param([(1001, 0)], [(1000, 0)], id="too many that are ready"),
        pytest.param([(0, 1001)], [(0, 1000)], id="too many that are not ready"),
        pytest.param([(900, 200)], [(900, 100)], id="ready ones first"),
        pytest.param([(1000, 200)], [(1000, 0)], id="no room for others"),
        pytest.param([(1200, 200)], [(1000, 0)], id="not even for all ready ones"),
        pytest.param(
            [(700, 0), (500, 0)], [(584, 0), (416, 0)], id="shares are rounded up"
        ),
        pytest.param(
            [(400, 500), (200, 100)],
            [(400, 334), (200, 66)],
            id="shares of those that are not ready",
        ),
        pytest.param(
            [(90, 101), (110, 200), (50, 200), (10, 201), (20, 298)],
            [(90, 73), (110, 144), (50, 144), (10, 145), (20, 214)],
            id="upstream: too many that are not ready, in five subsets",
        ),
        pytest.param(
            [(205, 100), (400, 200), (402, 200), (400, 200), (693, 300)],
            [(98, 0), (191, 0), (192, 0), (191, 0), (328, 0)],
            id="upstream: too many that are ready, in five subsets",
        ),
        pytest.param(
            [(1200, 0), (0, 10)],
            [(1000, 0)],
            id="a subset without addresses would be refused",
        ),
        pytest.param(
            [(1, 0)] * 1001, [(1, 0)] * 1000, id="the last subsets get nothing"
        ),
    ],
)
def test_addresses_beyond_the_capacity_are_left_out(
    given: list[Sizes], expected: list[Sizes]
) -> None:
    """Each subset keeps the first ones of its share."""
    before = subsets(*given)
    found, is_truncated = truncate(before)
    assert sizes_of(found) == expected
    assert is_truncated == (given != expected)


def test_a_subset_keeps_its_first_addresses() -> None:
    """They are sorted, so the same addresses stay from one sync to the next."""
    (before,) = subsets((1100, 100))
    (after,), _ = truncate((before,))
    assert after == EndpointSubset(addresses=(before.addresses or ())[:1000])


def test_the_capacity_is_used() -> None:
    """For random subsets: exactly 1,000 addresses stay, and ready ones go first."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    for _ in range(200):
        given = [
            (rng.choice((0, 1, rng.randint(0, 700))), rng.randint(0, 400))
            for _ in range(rng.randint(1, 8))
        ]
        found, is_truncated = truncate(subsets(*given))
        total = sum(map(sum, given))
        kept = sum(map(sum, sizes_of(found)))
        assert kept == min(total, 1000), seed
        assert is_truncated == (total > 1000), seed
        ready = sum(size for size, _ in given)
        assert sum(size for size, _ in sizes_of(found)) == min(ready, 1000), seed


def test_shares_follow_the_sizes() -> None:
    """A larger subset keeps no fewer addresses than a smaller one after it."""
    found, _ = truncate(subsets((900, 0), (600, 0), (300, 0), (10, 0)))
    assert all(one >= other for (one, _), (other, _) in pairwise(sizes_of(found)))
