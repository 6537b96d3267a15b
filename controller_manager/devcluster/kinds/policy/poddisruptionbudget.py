"""PodDisruptionBudget: how many pods may be unavailable at a time."""

from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.kind import Kind, status_of
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import AGE, NAME, Cells, Column, age

JSON = dict[str, Any]


class PodDisruptionBudgetStrategy(Strategy):
    """Counts the changes of the spec as generations."""

    counts_generations: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("Min Available"),
        Column("Max Unavailable"),
        Column("Allowed Disruptions", "integer"),
        AGE,
    )
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

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj.get("spec", {})
        return [
            name_of(obj),
            str(spec.get("minAvailable", "N/A")),
            str(spec.get("maxUnavailable", "N/A")),
            obj.get("status", {}).get("disruptionsAllowed", 0),
            age(obj, now),
        ]


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
