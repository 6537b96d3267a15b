"""Feature gates that several controllers look at."""

from typing import Final

from controller_manager.options.gates import Gate

POD_DELETION_COST: Final = Gate("PodDeletionCost")
"""An annotation says which of an owner's pods are deleted first."""

TERMINATING_REPLICAS: Final = Gate("DeploymentReplicaSetTerminatingReplicas")
"""Statuses count the pods that are on their way out."""

LOGARITHMIC_SCALE_DOWN: Final = Gate("LogarithmicScaleDown", locked=True)
"""Of pods that are equal otherwise, those of a younger order of age go first."""

OBSERVED_GENERATION: Final = Gate("PodObservedGenerationTracking", locked=True)
"""Conditions of pods say of which generation they speak."""
