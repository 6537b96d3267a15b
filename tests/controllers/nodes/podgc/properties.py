"""The properties of the pod garbage collector."""

from dataclasses import replace
from typing import Final

from controller_manager.controllers.nodes.podgc import PodGCOptions
from controller_manager.options.config import Config
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties

_KEPT_PODS: Final = 5
"""Terminated pods that are kept, so that others are collected."""

_FAILS: Final = only(
    ("status", "phase"), ("status", "conditions"), ("status", "observedGeneration")
)


class PodGCProperties(Properties):
    """It deletes pods, after it has marked them as failed."""

    controller = "pod-garbage-collector-controller"
    may_write = (
        AllowedWrite(("delete",), "pods"),
        AllowedWrite(
            ("patch",),
            "pods/status",
            _FAILS,
        ),
    )

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Set a low threshold of terminated pods."""
        return replace(
            config,
            controllers={**config.controllers, PodGCOptions: PodGCOptions(_KEPT_PODS)},
        )


PROPERTIES = PodGCProperties
