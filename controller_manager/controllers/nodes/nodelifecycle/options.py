"""The flags of the node lifecycle controller."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag


class NodeLifecycleOptions(ControllerOptions):
    """The times after which a node counts as dead, and the rates of evictions."""

    large_cluster_size_threshold: int = option(
        Flag(
            "large-cluster-size-threshold",
            "int32",
            "50",
            "A zone with more nodes than this is large; a smaller one stops all "
            "evictions while many of its nodes are unhealthy.",
            "NodeLifecycleController.LargeClusterSizeThreshold",
        )
    )
    node_eviction_rate: float = option(
        Flag(
            "node-eviction-rate",
            "float32",
            "0.1",
            "Nodes a second whose pods are evicted when they fail in a healthy zone.",
            "NodeLifecycleController.NodeEvictionRate",
        )
    )
    node_monitor_grace_period: float = option(
        Flag(
            "node-monitor-grace-period",
            "duration",
            "50s",
            "The time for which a node may be silent before it counts as unhealthy.",
            "NodeLifecycleController.NodeMonitorGracePeriod",
        )
    )
    node_startup_grace_period: float = option(
        Flag(
            "node-startup-grace-period",
            "duration",
            "1m0s",
            "The time for which a new node may be silent before it counts as "
            "unhealthy.",
            "NodeLifecycleController.NodeStartupGracePeriod",
        )
    )
    secondary_node_eviction_rate: float = option(
        Flag(
            "secondary-node-eviction-rate",
            "float32",
            "0.01",
            "Nodes a second whose pods are evicted in a large zone in which many "
            "nodes are unhealthy.",
            "NodeLifecycleController.SecondaryNodeEvictionRate",
        )
    )
    unhealthy_zone_threshold: float = option(
        Flag(
            "unhealthy-zone-threshold",
            "float32",
            "0.55",
            "The part of the nodes of a zone, at least three, that must be unhealthy "
            "for the zone to be unhealthy.",
            "NodeLifecycleController.UnhealthyZoneThreshold",
        )
    )
