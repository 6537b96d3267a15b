"""Deliberate bugs of the status of pools."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller_manager.api.dynamicresources.v1 import ResourceSlice
from controller_manager.controllers.resource.resourcepoolstatusrequest import status
from controller_manager.controllers.resource.resourcepoolstatusrequest.controller import (  # noqa: E501 - a long path
    PoolStatusReconciler,
)
from tests.simulation.planted import Bug


def _nothing_is_missing(_: Sequence[ResourceSlice]) -> str:
    return ""


def _slices_of_all_times(
    _: object, slices: Iterable[ResourceSlice]
) -> Mapping[str, Sequence[ResourceSlice]]:
    found: defaultdict[str, list[ResourceSlice]] = defaultdict(list)
    for each in slices:
        found[each.spec.pool.name].append(each)
    return found


BUGS: Final[Mapping[str, Bug]] = {
    "answer before a pool is complete": Bug(1, status, "_missing", _nothing_is_missing),
    "count the slices of all generations": Bug(
        1, status, "_newest_slices", _slices_of_all_times
    ),
    "do not look at requests when slices come": Bug(
        0,
        PoolStatusReconciler,
        "watches",
        PoolStatusReconciler.watches[:1],
        "pool-that-is-complete-late",
    ),
}
