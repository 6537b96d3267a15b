"""Deliberate bugs of the endpoints controller."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from controller_manager.api.core.services import Endpoints
from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.network.endpoints import desired
from controller_manager.controllers.network.endpoints.controller import (
    EndpointsReconciler,
)
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from tests.simulation.planted import Bug


def _miss_a_pod(_: EndpointsReconciler, __: str, ___: Pod) -> None:
    """Sync services only when they change themselves."""


def _miss_an_edit(_: EndpointsReconciler, __: Endpoints) -> None:
    """Do not sync Endpoints that another client has changed."""


async def _leave_everything(_: EndpointsReconciler, __: str) -> Outcome:
    return DONE


def _leave_leftovers(self: EndpointsReconciler) -> Iterator[None]:
    return Reconciler.enqueue_all(self)


def _are_all_the_same(_: Any, __: Any) -> bool:
    """Write Endpoints only if their labels differ."""
    return True


BUGS: Final[Mapping[str, Bug]] = {
    "miss pods of services": Bug(1, EndpointsReconciler, "_pod_changed", _miss_a_pod),
    "miss edits of Endpoints": Bug(
        0, EndpointsReconciler, "_changed", _miss_an_edit, "endpoints-are-emptied"
    ),
    "keep Endpoints of deleted services": Bug(
        0,
        EndpointsReconciler,
        "reconcile_absent",
        _leave_everything,
        "service-is-deleted-while-its-deletion-is-not-seen",
    ),
    "keep Endpoints of former times": Bug(
        0,
        EndpointsReconciler,
        "enqueue_all",
        _leave_leftovers,
        "endpoints-are-left-over",
    ),
    "truncate Endpoints too early": Bug(1, desired, "CAPACITY", 2),
    "write Endpoints once": Bug(1, desired, "_is_same", _are_all_the_same),
}
