"""Deliberate bugs of the deletion of requests."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from controller_manager.controllers.certificates.cleaner import controller
from tests.simulation.planted import Bug

_SCENARIO: Final = "requests-grow-old"

BUGS: Final[Mapping[str, Bug]] = {
    "take pending requests for answered ones": Bug(
        0, controller, "_PENDING", timedelta(hours=1), _SCENARIO
    ),
    "delete half an hour early": Bug(
        0, controller, "_ANSWERED", timedelta(minutes=30), _SCENARIO
    ),
    "delete nothing": Bug(0, controller, "expires_at", lambda _: None, _SCENARIO),
}
