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

POD_LEVEL_RESOURCES: Final = Gate("PodLevelResources")
"""The resources that the spec of a pod states for the pod as a whole count."""

POD_LEVEL_RESIZE: Final = Gate(
    "InPlacePodLevelResourcesVerticalScaling", depends_on=(POD_LEVEL_RESOURCES.name,)
)
"""Those resources may change while the pod runs. Kubelets, schedulers and API servers
do that: as upstream's quotas and autoscalers, ours count what the spec says by now."""

EXTENDED_RESOURCES: Final = Gate("DRAExtendedResource")
"""Device classes may stand for extended resources."""

COMPARISON_OPERATORS: Final = Gate(
    "TaintTolerationComparisonOperators", stage="ALPHA", default=False
)
"""Tolerations may compare numbers, with the operators Lt and Gt."""
