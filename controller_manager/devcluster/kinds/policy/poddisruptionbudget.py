"""PodDisruptionBudget: how many pods may be gone at a time."""

from typing import ClassVar, Final

from controller_manager.devcluster.server.kind import Kind, status_of
from controller_manager.devcluster.server.strategy import Strategy


class PodDisruptionBudgetStrategy(Strategy):
    """Counts the changes of its spec."""

    counts_generations: ClassVar = True
    messages: ClassVar = {
        "PodDisruptionBudget": {
            1: "metadata:ObjectMeta",
            2: "spec:PodDisruptionBudgetSpec",
            3: "status:PodDisruptionBudgetStatus",
        },
        "PodDisruptionBudgetSpec": {
            1: "minAvailable:IntOrString",
            2: "selector:LabelSelector",
            3: "maxUnavailable:IntOrString",
            4: "unhealthyPodEvictionPolicy:str",
        },
        "PodDisruptionBudgetStatus": {
            1: "observedGeneration:int",
            3: "disruptionsAllowed:int",
            4: "currentHealthy:int",
            5: "desiredHealthy:int",
            6: "expectedPods:int",
        },
    }


KIND: Final = Kind(
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    model="V1PodDisruptionBudget",
    short_names=("pdb",),
    subresources=(status_of("PodDisruptionBudget"),),
    strategy=PodDisruptionBudgetStrategy(),
)
