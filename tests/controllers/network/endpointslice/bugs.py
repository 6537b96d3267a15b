"""Deliberate bugs of the endpoint slice controller."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller_manager.api.discovery.v1 import EndpointSlice
from controller_manager.control.endpoints import pods
from controller_manager.control.endpoints.slices import SliceActions
from controller_manager.controllers.network.endpointslice import controller
from controller_manager.controllers.network.endpointslice.tracker import SettledSlices
from tests.simulation.planted import Bug

_start_sync = SettledSlices.start_sync
_finish_sync = SettledSlices.finish_sync


def _look_at_no_change(
    settled_slices: SettledSlices, cached: Sequence[EndpointSlice], _: Iterable[str]
) -> tuple[tuple[EndpointSlice, ...], tuple[str, ...]]:
    """Check only pods whose slices have changed."""
    return _start_sync(settled_slices, cached, ())


def _trust_writes(settled_slices: SettledSlices, changes: SliceActions) -> None:
    """Forget the pods in slices that were written."""
    _finish_sync(settled_slices, changes)
    settled_slices._unsettled.clear()


BUGS: Final[Mapping[str, Bug]] = {
    "miss changes of pods": Bug(1, SettledSlices, "start_sync", _look_at_no_change),
    "trust that slices stay as written": Bug(
        0,
        SettledSlices,
        "finish_sync",
        _trust_writes,
        "slice-deleted-before-it-is-seen",
    ),
    "send traffic to pods that end": Bug(
        0, pods, "is_deleting", lambda _: False, "pod-that-ends-for-long"
    ),
    "leave edited slices as they are": Bug(
        0, controller, "_differ", lambda _, __: False, "slice-that-a-user-empties"
    ),
    "select pods by one label": Bug(
        0, pods, "is_selected", lambda _, __: True, "pod-that-leaves-a-service"
    ),
    "miss that a pod is ready": Bug(1, pods, "has_changed", lambda _, __: False),
}
