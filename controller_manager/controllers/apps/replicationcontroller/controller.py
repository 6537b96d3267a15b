"""Replication controllers as owners of pods (replication_controller.go)."""

from controller_manager.api.core.v1 import (
    PODS,
    REPLICATION_CONTROLLERS,
    ReplicationController,
)
from controller_manager.control.gates import POD_DELETION_COST
from controller_manager.control.replicas.controller import ReplicasReconciler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.watches import For, Owns

from . import ReplicationControllerOptions


class ReplicationControllerReconciler(ReplicasReconciler[ReplicationController]):
    """Keeps as many pods as each replication controller wants.

    Upstream's gate for reading own writes exists for replica sets only.
    """

    watches = (For(REPLICATION_CONTROLLERS), Owns(PODS))
    queue_name = "replicationmanager"
    noun = "replication controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        options = context.config.of(ReplicationControllerOptions)
        self.workers = options.concurrent_syncs
        self.uses_deletion_costs = context.config.features.is_enabled(POD_DELETION_COST)
