"""Deliberate bugs of the mirroring controller."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from controller_manager.api.core.services import Endpoints
from controller_manager.api.discovery.v1 import EndpointSlice
from controller_manager.control.endpoints.slices import SliceActions
from controller_manager.controllers.network.endpointslicemirroring import (
    controller,
    slices,
)
from controller_manager.controllers.network.endpointslicemirroring.controller import (
    MirroringReconciler,
)
from controller_manager.controllers.network.endpointslicemirroring.slices import (
    recycled_without_gaps,
)
from tests.simulation.planted import Bug


def _miss_a_change(_: MirroringReconciler, __: EndpointSlice, *___: Any) -> None:
    """Ignore slices that another client has changed."""


def _skip_nothing(_: Endpoints) -> bool:
    return True


def _delete_nothing(*given: Any) -> SliceActions:
    """Leave slices that are not wanted any more."""
    return replace(recycled_without_gaps(*given), delete=())


BUGS: Final[Mapping[str, Bug]] = {
    "miss what happens to mirrored slices": Bug(
        0,
        MirroringReconciler,
        "_slice_updated",
        _miss_a_change,
        "mirrored-slice-is-taken-away",
    ),
    "mirror what is skipped": Bug(2, controller, "may_be_mirrored", _skip_nothing),
    "leave mirrored slices": Bug(4, slices, "recycled_without_gaps", _delete_nothing),
}
