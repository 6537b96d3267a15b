"""pod-garbage-collector-controller: deletes pods that nothing else deletes."""

from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.control.gates import OBSERVED_GENERATION
from controller_manager.informers.reads import Reads
from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import allow


class PodGCOptions(ControllerOptions):
    """The number of terminated pods that are kept; 0 or less keeps all of them."""

    terminated_pod_threshold: int = option(
        "terminated-pod-gc-threshold",
        "int32",
        "12500",
        "The number of terminated pods above which the oldest are deleted; 0 or "
        "less deletes none.",
        "PodGCController.TerminatedPodGCThreshold",
    )


CONTROLLER = Descriptor(
    name="pod-garbage-collector-controller",
    aliases=("podgc",),
    load=".controller:init_pod_garbage_collector_controller",
    requires=(PODS, NODES),
    evicts_as="DeletionByPodGC",
    reads=(
        Reads(
            PODS,
            *("metadata.generation", "spec.nodeName", "status.phase"),
            *("status.reason", "status.conditions[DisruptionTarget]"),
        ),
        Reads(NODES, "spec.taints.key", "status.conditions[Ready]"),
    ),
    options=PodGCOptions,
    gates=(OBSERVED_GENERATION,),
    permissions=(
        allow(PODS, "delete", "list", "watch"),
        allow(NODES, "get", "list", "watch"),
        allow(PODS, "patch", subresource="status"),
    ),
    metrics=(
        "pod_gc_collector_force_delete_pod_errors_total",
        "pod_gc_collector_force_delete_pods_total",
    ),
    service_account="pod-garbage-collector",
)
