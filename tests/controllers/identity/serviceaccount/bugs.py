"""Deliberate bugs of the service account controller."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from controller_manager.controllers.identity.serviceaccount import controller
from controller_manager.controllers.identity.serviceaccount.controller import (
    ServiceAccountReconciler,
)
from tests.simulation.planted import Bug

_SCENARIO: Final = "default-account-is-deleted"

BUGS: Final[Mapping[str, Bug]] = {
    "miss that a default account is gone": Bug(
        0,
        ServiceAccountReconciler,
        "watches",
        (
            ServiceAccountReconciler.watches[0],
            replace(ServiceAccountReconciler.watches[1], on=("add",)),
        ),
        _SCENARIO,
    ),
    "give new namespaces no account": Bug(
        0, controller, "is_active", lambda _: False, _SCENARIO
    ),
}
