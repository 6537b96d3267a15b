"""The parts of the node lifecycle controller, and how they are connected."""

from controller_manager.controllers.nodes.nodelifecycle.apply import NodeWriter
from controller_manager.controllers.nodes.nodelifecycle.monitor import NodeMonitor
from controller_manager.controllers.nodes.nodelifecycle.no_execute import (
    NoExecuteTainter,
)
from controller_manager.controllers.nodes.nodelifecycle.no_schedule import (
    NoScheduleTainter,
)
from controller_manager.controllers.nodes.nodelifecycle.node_health import GracePeriods
from controller_manager.controllers.nodes.nodelifecycle.options import (
    NodeLifecycleOptions,
)
from controller_manager.controllers.nodes.nodelifecycle.pods import PodMarker
from controller_manager.controllers.nodes.nodelifecycle.topology import Rates
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup


def init_node_lifecycle_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (newNodeLifecycleController)."""
    options = context.config.of(NodeLifecycleOptions)
    grace = GracePeriods(
        startup=options.node_startup_grace_period,
        monitor=options.node_monitor_grace_period,
    )
    rates = Rates(
        normal=options.node_eviction_rate,
        secondary=options.secondary_node_eviction_rate,
        large_size=options.large_cluster_size_threshold,
        unhealthy_part=options.unhealthy_zone_threshold,
    )
    writer = NodeWriter(context)
    tainter = NoExecuteTainter(context, writer, rates.normal)
    period = context.config.generic.node_monitor_period
    monitor = NodeMonitor(context, period, grace, rates, writer, tainter)
    pods = PodMarker(context, monitor.is_unreachable)
    monitor.on_unreachable = pods.add
    tainter.renews_lease = monitor.leases.renews_lease
    return WorkerGroup(
        NoScheduleTainter(context, writer).workers(),
        pods.workers(),
        tainter.workers(),
        monitor.workers(),
    )
