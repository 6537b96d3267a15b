"""node-lifecycle-controller: finds nodes that have died, and taints nodes."""

from controller_manager.api.coordination.v1 import LEASE_RENEWALS
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.control.node_controller import PERMISSIONS, SERVICE_ACCOUNT
from controller_manager.informers.reads import Reads
from controller_manager.runtime.descriptor import Descriptor

from .options import NodeLifecycleOptions

CONTROLLER = Descriptor(
    name="node-lifecycle-controller",
    aliases=("nodelifecycle",),
    load=".controller:init_node_lifecycle_controller",
    requires=(LEASE_RENEWALS, NODES, PODS),
    reads=(
        Reads(LEASE_RENEWALS, "spec.renewTime"),
        Reads(
            NODES,
            *("spec.taints", "spec.unschedulable", "status.conditions"),
        ),
        Reads(PODS, "spec.nodeName", "status.conditions[Ready]"),
    ),
    options=NodeLifecycleOptions,
    permissions=PERMISSIONS,
    metrics=(
        "node_collector_evictions_total",
        "node_collector_unhealthy_nodes_in_zone",
        "node_collector_update_all_nodes_health_duration_seconds",
        "node_collector_update_node_health_duration_seconds",
        "node_collector_zone_health",
        "node_collector_zone_size",
    ),
    component="node-controller",
    service_account=SERVICE_ACCOUNT,
)
