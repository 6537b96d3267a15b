"""taint-eviction-controller: evicts pods from nodes with NoExecute taints."""

from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.control.gates import COMPARISON_OPERATORS, OBSERVED_GENERATION
from controller_manager.control.node_controller import PERMISSIONS, SERVICE_ACCOUNT
from controller_manager.informers.reads import Reads
from controller_manager.runtime.descriptor import Descriptor

CONTROLLER = Descriptor(
    name="taint-eviction-controller",
    load=".controller:init_taint_eviction_controller",
    requires=(PODS, NODES),
    evicts_as="DeletionByTaintManager",
    reads=(
        Reads(
            PODS,
            *("metadata.generation", "spec.nodeName", "spec.tolerations"),
            "status.conditions[DisruptionTarget]",
        ),
        Reads(NODES, "spec.taints"),
    ),
    gates=(COMPARISON_OPERATORS, OBSERVED_GENERATION),
    permissions=PERMISSIONS,
    metrics=(
        "taint_eviction_controller_pod_deletion_duration_seconds",
        "taint_eviction_controller_pod_deletions_total",
    ),
    service_account=SERVICE_ACCOUNT,
)
