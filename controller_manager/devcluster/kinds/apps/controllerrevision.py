"""ControllerRevision: one state of a template, to go back to."""

from typing import Final

from controller_manager.devcluster.server.kind import Kind

KIND: Final = Kind(
    "apps",
    "v1",
    "ControllerRevision",
    "controllerrevisions",
    model="V1ControllerRevision",
)
