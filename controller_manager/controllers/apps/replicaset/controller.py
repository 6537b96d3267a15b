"""Replica sets as owners of pods (replica_set.go)."""

from controller_manager.api.apps.v1 import REPLICASETS, ReplicaSet
from controller_manager.api.core.v1 import PODS
from controller_manager.control.gates import POD_DELETION_COST, TERMINATING_REPLICAS
from controller_manager.control.replicas.controller import ReplicasReconciler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.watches import For, Owns

from . import READS_OWN_WRITES, ReplicaSetOptions


class ReplicaSetReconciler(ReplicasReconciler[ReplicaSet]):
    """Keeps as many pods as each replica set wants."""

    watches = (For(REPLICASETS), Owns(PODS))
    queue_name = "replicaset"
    noun = "replica set"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.workers = context.config.of(ReplicaSetOptions).concurrent_syncs
        gates = context.config.features
        self.counts_terminating = gates.is_enabled(TERMINATING_REPLICAS)
        self.uses_deletion_costs = gates.is_enabled(POD_DELETION_COST)
        self.reads_own_writes = gates.is_enabled(READS_OWN_WRITES)
