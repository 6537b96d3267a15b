"""What the horizontal pod autoscaler controller promises."""

from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties


class AutoscalerProperties(Properties):
    """It sets numbers of replicas through scales, and its own status."""

    controller = "horizontal-pod-autoscaler-controller"
    may_write = (
        AllowedWrite(("update",), "deployments/scale"),
        AllowedWrite(("update",), "replicasets/scale"),
        AllowedWrite(("update",), "statefulsets/scale"),
        AllowedWrite(("update",), "replicationcontrollers/scale"),
        AllowedWrite(("update",), "horizontalpodautoscalers/status", only(("status",))),
    )


PROPERTIES = AutoscalerProperties
