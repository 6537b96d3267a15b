"""The numbers of available devices of pools, as a table."""

from typing import Any

import pytest

from controller_manager.api.dynamicresources.v1 import (
    AllocatedDevice,
    Allocation,
    Device,
    DeviceAllocation,
    ResourceClaim,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from controller_manager.api.dynamicresources.v1alpha3 import (
    PoolStatus,
    ResourcePoolStatusRequestSpec,
)
from controller_manager.controllers.resource.resourcepoolstatusrequest.status import (
    answer,
    drivers_of,
)


def part(
    pool: str, devices: int, generation: int = 1, count: int = 1, node: str | None = "n"
) -> ResourceSlice:
    return ResourceSlice(
        spec=ResourceSliceSpec(
            driver="d",
            pool=ResourcePool(
                name=pool, generation=generation, resource_slice_count=count
            ),
            node_name=node,
            devices=tuple(Device(name=str(each)) for each in range(devices)) or None,
        )
    )


def claim(*pools: str) -> ResourceClaim:
    """Return a claim with a device of each pool, named ``driver/pool``."""
    results = tuple(
        AllocatedDevice(driver=driver, pool=pool, device="x")
        for driver, _, pool in (each.partition("/") for each in pools)
    )
    allocation = Allocation(devices=DeviceAllocation(results=results or None))
    return ResourceClaim(status=ResourceClaimStatus(allocation=allocation))


def asked(**limits: Any) -> ResourcePoolStatusRequestSpec:
    return ResourcePoolStatusRequestSpec(driver="d", **limits)


def numbers(pool: PoolStatus) -> tuple[Any, ...]:
    return (
        pool.pool_name,
        pool.generation,
        pool.resource_slice_count,
        pool.total_devices,
        pool.allocated_devices,
        pool.available_devices,
        pool.unavailable_devices,
        pool.node_name,
    )


@pytest.mark.parametrize(
    ("slices", "claims", "expected"),
    [
        ([], [], []),
        ([part("p", 3)], [], [("p", 1, 1, 3, 0, 3, 0, "n")]),
        ([part("p", 0)], [], [("p", 1, 1, 0, 0, 0, 0, "n")]),
        ([part("p", 3)], [claim("d/p")], [("p", 1, 1, 3, 1, 2, 0, "n")]),
        ([part("p", 3)], [claim("d/p", "d/p")], [("p", 1, 1, 3, 2, 1, 0, "n")]),
        ([part("p", 3)], [claim("d/q"), claim("e/p")], [("p", 1, 1, 3, 0, 3, 0, "n")]),
        ([part("p", 1)], [claim("d/p", "d/p")], [("p", 1, 1, 1, 2, 0, 0, "n")]),
        ([part("p", 3)], [ResourceClaim()], [("p", 1, 1, 3, 0, 3, 0, "n")]),
        (
            [part("p", 3, count=2), part("p", 4, count=2)],
            [],
            [("p", 1, 2, 7, 0, 7, 0, "n")],
        ),
        (
            [part("p", 3, generation=1), part("p", 4, generation=2)],
            [],
            [("p", 2, 1, 4, 0, 4, 0, "n")],
        ),
        (
            [part("p", 4, generation=2), part("p", 3, generation=1)],
            [],
            [("p", 2, 1, 4, 0, 4, 0, "n")],
        ),
        (
            [part("p", 1, count=2, node="n"), part("p", 1, count=2, node="m")],
            [],
            [("p", 1, 2, 2, 0, 2, 0, None)],
        ),
        ([part("p", 1, node=None)], [], [("p", 1, 1, 1, 0, 1, 0, None)]),
        ([part("p", 1, node="")], [], [("p", 1, 1, 1, 0, 1, 0, None)]),
        (
            [part("q", 1), part("p", 2)],
            [claim("d/q")],
            [("p", 1, 1, 2, 0, 2, 0, "n"), ("q", 1, 1, 1, 1, 0, 0, "n")],
        ),
    ],
)
def test_the_newest_slices_of_a_pool_and_the_claims_count(
    slices: list[ResourceSlice],
    claims: list[ResourceClaim],
    expected: list[tuple[Any, ...]],
) -> None:
    """Pools are sorted by name."""
    found = answer(asked(), slices, claims)
    assert found.incomplete == ()
    assert found.count == len(expected)
    assert [numbers(each) for each in found.pools] == expected


@pytest.mark.parametrize(
    ("limits", "names", "count"),
    [
        ({}, ["a", "b", "c"], 3),
        ({"limit": 2}, ["a", "b"], 3),
        ({"pool_name": "b"}, ["b"], 1),
        ({"pool_name": ""}, ["a", "b", "c"], 3),
        ({"pool_name": "x"}, [], 0),
    ],
)
def test_a_request_may_be_for_one_pool_or_for_a_few(
    limits: dict[str, Any], names: list[str], count: int
) -> None:
    """All pools are counted."""
    found = answer(asked(**limits), [part(each, 1) for each in "cab"], [])
    assert [each.pool_name for each in found.pools] == names
    assert found.count == count


def test_a_response_has_a_hundred_pools_by_default() -> None:
    """As documented."""
    found = answer(asked(), [part(f"{each:03}", 1) for each in range(101)], [])
    assert (len(found.pools), found.count) == (100, 101)


def test_a_pool_is_incomplete_while_slices_are_missing() -> None:
    """Slices of an older generation do not count; pools beyond the limit neither."""
    slices = [part("p", 1, generation=1), part("p", 1, generation=2, count=2)]
    text = "pool d/p is incomplete: observed 1/2 slices at generation 2"
    assert answer(asked(), slices, []).incomplete == (text,)
    slices.append(part("a", 1))
    assert answer(asked(limit=1), slices, []).incomplete == ()


def test_a_claim_is_found_by_each_of_its_drivers() -> None:
    """Once."""
    assert list(drivers_of(claim("d/p", "e/p", "d/q"))) == ["d", "e"]
    assert list(drivers_of(claim())) == list(drivers_of(ResourceClaim())) == []
