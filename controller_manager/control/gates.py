"""Feature gates that several controllers read."""

from typing import Final

from controller_manager.options.gates import Gate

POD_DELETION_COST: Final = Gate("PodDeletionCost")
"""An annotation says which of an owner's pods are deleted first."""

TERMINATING_REPLICAS: Final = Gate("DeploymentReplicaSetTerminatingReplicas")
"""Statuses count the pods that are terminating."""

LOGARITHMIC_SCALE_DOWN: Final = Gate("LogarithmicScaleDown", locked=True)
"""Among equal pods, those in a younger power of two of age are deleted first."""

OBSERVED_GENERATION: Final = Gate("PodObservedGenerationTracking", locked=True)
"""Conditions of pods have an observedGeneration."""

COMPARISON_OPERATORS: Final = Gate(
    "TaintTolerationComparisonOperators", stage="ALPHA", default=False
)
"""Tolerations may compare numbers, with the operators Lt and Gt."""
