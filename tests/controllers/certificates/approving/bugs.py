"""Deliberate bugs of the approval of requests."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from controller_manager.controllers.certificates.approving import controller
from controller_manager.controllers.certificates.approving.controller import (
    ApprovingReconciler,
)
from tests.simulation.planted import Bug

_SCENARIO: Final = "a-stranger-asks-for-a-nodes-certificate"


async def _skip_the_review(*_: object) -> bool:
    return True


def _give_the_right_to_any_request(*_: Any) -> Iterator[controller.Right]:
    yield controller.OTHER


BUGS: Final[Mapping[str, Bug]] = {
    "assume that a user may": Bug(
        0, ApprovingReconciler, "_has", _skip_the_review, _SCENARIO
    ),
    "approve requests for any signer": Bug(
        0, controller, "rights", _give_the_right_to_any_request, _SCENARIO
    ),
    "approve no request": Bug(
        0, controller, "_is_undecided", lambda _: False, _SCENARIO
    ),
}
