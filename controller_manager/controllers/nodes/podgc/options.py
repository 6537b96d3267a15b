"""The flags of the pod garbage collector."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag


class PodGCOptions(ControllerOptions):
    """The number of terminated pods that are kept; 0 or less keeps all of them."""

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
