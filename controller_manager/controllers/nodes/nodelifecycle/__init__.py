"""node-lifecycle-controller: finds nodes that have died, and taints nodes."""

from controller_manager.api.coordination.v1 import LEASE_RENEWALS
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.control.node_controller import PERMISSIONS, SERVICE_ACCOUNT
from controller_manager.informers.reads import Reads
from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.runtime.descriptor import Descriptor


class NodeLifecycleOptions(ControllerOptions):
    """The times after which a node counts as dead, and the rates of evictions."""

    large_cluster_size_threshold: int = option(
        "large-cluster-size-threshold",
        "int32",
        "50",
        "A zone with more nodes than this is large; a smaller one stops all "
        "evictions while many of its nodes are unhealthy.",
        "NodeLifecycleController.LargeClusterSizeThreshold",
    )
    node_eviction_rate: float = option(
        "node-eviction-rate",
        "float32",
        "0.1",
        "Nodes a second whose pods are evicted when they fail in a healthy zone.",
        "NodeLifecycleController.NodeEvictionRate",
    )
    node_monitor_grace_period: float = option(
        "node-monitor-grace-period",
        "duration",
        "50s",
        "The time for which a node may be silent before it counts as unhealthy.",
        "NodeLifecycleController.NodeMonitorGracePeriod",
    )
    node_startup_grace_period: float = option(
        "node-startup-grace-period",
        "duration",
        "1m0s",
        "The time for which a new node may be silent before it counts as unhealthy.",
        "NodeLifecycleController.NodeStartupGracePeriod",
    )
    secondary_node_eviction_rate: float = option(
        "secondary-node-eviction-rate",
        "float32",
        "0.01",
        "Nodes a second whose pods are evicted in a large zone in which many "
        "nodes are unhealthy.",
        "NodeLifecycleController.SecondaryNodeEvictionRate",
    )
    unhealthy_zone_threshold: float = option(
        "unhealthy-zone-threshold",
        "float32",
        "0.55",
        "The part of the nodes of a zone, at least three, that must be unhealthy "
        "for the zone to be unhealthy.",
        "NodeLifecycleController.UnhealthyZoneThreshold",
    )


CONTROLLER = Descriptor(
    name="node-lifecycle-controller",
    aliases=("nodelifecycle",),
    load=".controller:init_node_lifecycle_controller",
    requires=(LEASE_RENEWALS, NODES, PODS),
    reads=(
        Reads(LEASE_RENEWALS, "spec.renewTime"),
        Reads(NODES, *("spec.taints", "spec.unschedulable", "status.conditions")),
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
