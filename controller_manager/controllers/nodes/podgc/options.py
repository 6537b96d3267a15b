"""The flags of the pod garbage collector."""

from dataclasses import dataclass

from controller_manager.options.controller_options import option
from controller_manager.options.flag import Flag


@dataclass(frozen=True, slots=True)
class PodGCOptions:
    """How many terminated pods are kept; 0 or less keeps all of them."""

    terminated_pod_threshold: int = option(
        Flag(
            "terminated-pod-gc-threshold",
            "int32",
            "12500",
            "The number of terminated pods above which the oldest are deleted; 0 or "
            "less deletes none.",
            "PodGCController.TerminatedPodGCThreshold",
        )
    )
