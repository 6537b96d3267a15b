"""ReplicaSet: keeps a number of equal pods running."""

from typing import ClassVar, Final

from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.replicas import ReplicasStrategy
from controller_manager.devcluster.registry.workload_validation import (
    SELECTOR_UPDATE,
    WORKLOAD,
    replica_status,
)
from controller_manager.devcluster.validation.rules import nested

_STATUS: Final = replica_status(
    "replicas, fullyLabeledReplicas, readyReplicas, availableReplicas, "
    "observedGeneration, terminatingReplicas",
    "fullyLabeledReplicas, readyReplicas, availableReplicas",
)


class ReplicaSetStrategy(ReplicasStrategy):
    """The selector is immutable."""

    rules: ClassVar = nested("spec", [WORKLOAD])
    update_rules: ClassVar = SELECTOR_UPDATE
    status_rules: ClassVar = _STATUS


KIND: Final = kind_of("apps/v1", "replicasets", ReplicaSetStrategy())
