"""Counts the available devices of pools (calculatePoolStatus of controller.go)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.dynamicresources.v1 import ResourceClaim, ResourceSlice
from controller_manager.api.dynamicresources.v1alpha3 import (
    PoolStatus,
    ResourcePoolStatusRequestSpec,
)

_LIMIT: Final = 100
"""The number of pools in a response if the request sets no limit."""


class Answer(Struct, frozen=True):
    """The status of the requested pools, and their count, also beyond the limit.

    `incomplete` has a text for each pool of which slices are missing.
    """

    pools: tuple[PoolStatus, ...]
    count: int
    incomplete: tuple[str, ...]


def drivers_of(claim: ResourceClaim) -> Iterable[str]:
    """Return the drivers whose devices were allocated for a claim, each once."""
    return dict.fromkeys(driver for driver, _ in allocated_to(claim))


def allocated_to(claim: ResourceClaim) -> Sequence[tuple[str, str]]:
    """Return the driver and the pool of each device allocated for a claim."""
    allocation = claim.status.allocation
    results = () if allocation is None else allocation.devices.results or ()
    return tuple((each.driver, each.pool) for each in results)


def answer(
    asked: ResourcePoolStatusRequestSpec,
    slices: Iterable[ResourceSlice],
    claims: Iterable[ResourceClaim],
) -> Answer:
    """Return the status of the pools of a driver, by its slices and claims, by name."""
    by_pool = _newest_slices(asked, slices)
    names = sorted(by_pool)
    limit = _LIMIT if asked.limit is None else asked.limit
    allocated = Counter(
        pool
        for claim in claims
        for driver, pool in allocated_to(claim)
        if driver == asked.driver
    )
    shown = [by_pool[name] for name in names[:limit]]
    return Answer(
        pools=tuple(_status(each, allocated) for each in shown),
        count=len(names),
        incomplete=tuple(filter(None, map(_missing, shown))),
    )


def _newest_slices(
    asked: ResourcePoolStatusRequestSpec, slices: Iterable[ResourceSlice]
) -> Mapping[str, Sequence[ResourceSlice]]:
    found: defaultdict[str, list[ResourceSlice]] = defaultdict(list)
    for each in slices:
        if asked.pool_name in (None, "", each.spec.pool.name):
            found[each.spec.pool.name].append(each)
    newest: dict[str, Sequence[ResourceSlice]] = {}
    for name, listed in found.items():
        generation = max(each.spec.pool.generation for each in listed)
        newest[name] = [
            each for each in listed if each.spec.pool.generation == generation
        ]
    return newest


def _missing(slices: Sequence[ResourceSlice]) -> str:
    """Return which slices of a pool are missing, "" for none."""
    spec = slices[0].spec
    expected = max(each.spec.pool.resource_slice_count for each in slices)
    if len(slices) >= expected:
        return ""
    return (
        f"pool {spec.driver}/{spec.pool.name} is incomplete: observed "
        f"{len(slices)}/{expected} slices at generation {spec.pool.generation}"
    )


def _status(
    slices: Sequence[ResourceSlice], allocated: Mapping[str, int]
) -> PoolStatus:
    spec = slices[0].spec
    total = sum(len(each.spec.devices or ()) for each in slices)
    used = allocated.get(spec.pool.name, 0)
    nodes = {each.spec.node_name or "" for each in slices}
    return PoolStatus(
        driver=spec.driver,
        pool_name=spec.pool.name,
        generation=spec.pool.generation,
        resource_slice_count=len(slices),
        total_devices=total,
        allocated_devices=used,
        available_devices=max(0, total - used),
        unavailable_devices=0,
        node_name=nodes.pop() or None if len(nodes) == 1 else None,
    )
