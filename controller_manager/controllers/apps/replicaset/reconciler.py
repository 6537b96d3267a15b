"""Replica sets as owners of pods (replica_set.go)."""

from controller_manager.api.apps.v1 import REPLICASETS
from controller_manager.control.replicas.controller import Kind, ReplicasController
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller


def init_replicaset_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (newReplicaSetController)."""
    gates = context.config.features
    kind = Kind(
        REPLICASETS,
        queue="replicaset",
        noun="replica set",
        counts_terminating=gates.deployment_replica_set_terminating_replicas,
        heeds_costs=gates.pod_deletion_cost,
        reads_own_writes=gates.stale_controller_consistency_replica_set,
    )
    controller = ReplicasController(context, kind)
    count = context.config.replicaset.concurrent_syncs
    return context.workers(
        controller.queue, controller.sync, count, on_start=controller.begin
    )
