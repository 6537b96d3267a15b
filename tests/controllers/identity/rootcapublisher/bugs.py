"""Deliberate bugs of the publisher of the root authority."""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.core.v1 import ConfigMap
from controller_manager.controllers.identity.rootcapublisher import controller
from controller_manager.controllers.identity.rootcapublisher.controller import (
    RootCAReconciler,
)
from tests.simulation.planted import Bug

_SCENARIO: Final = "root-authority-is-spoiled"


def _has_the_authority(publisher: RootCAReconciler, present: ConfigMap) -> bool:
    return (present.data or {}).items() >= publisher._data.items()


BUGS: Final[Mapping[str, Bug]] = {
    "leave an edited root authority": Bug(
        0, RootCAReconciler, "_is_right", lambda *_: True, _SCENARIO
    ),
    "leave additions to the root authority": Bug(
        0, RootCAReconciler, "_is_right", _has_the_authority, _SCENARIO
    ),
    "miss that the root authority is gone": Bug(
        0, RootCAReconciler, "watches", RootCAReconciler.watches[:1], _SCENARIO
    ),
    "publish nothing in new namespaces": Bug(
        0, controller, "is_active", lambda _: False, _SCENARIO
    ),
}
