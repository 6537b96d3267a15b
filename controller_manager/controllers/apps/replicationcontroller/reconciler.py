"""Replication controllers as owners of pods (replication_controller.go)."""

from controller_manager.api.core.v1 import REPLICATION_CONTROLLERS
from controller_manager.control.replicas.controller import Kind, ReplicasController
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller


def init_replicationcontroller_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (newReplicationController)."""
    kind = Kind(
        REPLICATION_CONTROLLERS,
        queue="replicationmanager",
        noun="replication controller",
        counts_terminating=False,
        heeds_costs=context.config.features.pod_deletion_cost,
        # Upstream's gate for this is one of replica sets only.
        reads_own_writes=True,
    )
    controller = ReplicasController(context, kind)
    count = context.config.replicationcontroller.concurrent_syncs
    return context.workers(
        controller.queue, controller.sync, count, on_start=controller.begin
    )
