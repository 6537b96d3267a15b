"""Deliberate bugs of the endpoint slice controller."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller_manager.api.discovery.v1 import EndpointSlice
from controller_manager.control.endpoints import membership
from controller_manager.control.endpoints.slices.changes import Changes
from controller_manager.control.endpoints.slices.packing import pack
from controller_manager.controllers.network.endpointslice import (
    backends,
    gathering,
    planning,
    slice_changes,
)
from controller_manager.controllers.network.endpointslice.placement import Placement
from tests.simulation.planted import Bug

_open = Placement.open
_close = Placement.close


def _look_at_no_change(
    placement: Placement, cached: Sequence[EndpointSlice], _: Iterable[str]
) -> tuple[tuple[EndpointSlice, ...], tuple[str, ...]]:
    """Look only at pods whose slices have changed."""
    return _open(placement, cached, ())


def _trust_writes(placement: Placement, changes: Changes) -> None:
    """Forget the pods in slices that were written."""
    _close(placement, changes)
    placement._unsettled.clear()


def _fill_without_limit(*arguments: object) -> object:
    existing, desired, template, limit, *settled = arguments
    assert isinstance(limit, int)
    return pack(existing, desired, template, 10 * limit, *settled)  # type: ignore[arg-type]


BUGS: Final[Mapping[str, Bug]] = {
    "miss changes of pods": Bug(1, Placement, "open", _look_at_no_change),
    "trust that slices stay as written": Bug(
        0, Placement, "close", _trust_writes, "slice-deleted-before-it-is-seen"
    ),
    "fill slices without a limit": Bug(1, planning, "pack", _fill_without_limit),
    "send traffic to pods that end": Bug(
        0, backends, "is_deleting", lambda _: False, "pod-that-ends-for-long"
    ),
    "leave edited slices as they are": Bug(
        0, slice_changes, "_differ", lambda _, __: False, "slice-that-a-user-empties"
    ),
    "select pods by one label": Bug(
        0, gathering, "is_selected", lambda _, __: True, "pod-that-leaves-a-service"
    ),
    "miss that a pod is ready": Bug(1, membership, "has_changed", lambda _, __: False),
}
