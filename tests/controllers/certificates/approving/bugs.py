"""Deliberate bugs of the approval of requests."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from controller_manager.controllers.certificates.approving import (
    recognition,
    reconciler,
)
from controller_manager.controllers.certificates.approving.reconciler import (
    ApprovingReconciler,
)
from tests.simulation.planted import Bug

_SCENARIO: Final = "a-stranger-asks-for-a-nodes-certificate"


async def _ask_nobody(*_: object) -> bool:
    return True


def _recognize_everything(*_: Any) -> Iterator[recognition.Right]:
    yield recognition.OTHER


BUGS: Final[Mapping[str, Bug]] = {
    "assume that a user may": Bug(
        0, ApprovingReconciler, "_has", _ask_nobody, _SCENARIO
    ),
    "approve requests for any signer": Bug(
        0, reconciler, "rights", _recognize_everything, _SCENARIO
    ),
    "approve nobody": Bug(0, reconciler, "_is_undecided", lambda _: False, _SCENARIO),
}
