"""Deliberate bugs of the deployment controller."""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.apps.v1 import desired_replicas
from controller_manager.controllers.apps.deployment import scaling
from tests.simulation.planted import Bug

BUGS: Final[Mapping[str, Bug]] = {
    "take all old pods away": Bug(1, scaling, "max_unavailable", desired_replicas),
}
