"""The parts of the node lifecycle controller, and how they are connected."""

from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup

from .apply import NodeWriter
from .monitor import NodeMonitor
from .no_execute import NoExecuteTainter
from .no_schedule import NoScheduleTainter
from .node_health import GracePeriods
from .options import NodeLifecycleOptions
from .pods import PodMarker
from .topology import Rates


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
