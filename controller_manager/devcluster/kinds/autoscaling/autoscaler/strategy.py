"""HorizontalPodAutoscaler: scales a workload by metrics."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.options.gates import Gate

from .metric_targets import targets_text
from .validation import AUTOSCALER, AUTOSCALER_STATUS, SCALING_TO_ZERO

_SCALE_TO_ZERO: Final = Gate("HPAScaleToZero", default=False)
_DEFAULT_UTILIZATION: Final = 80
_PERIOD: Final = 15
_MOST_POLICY: Final = {"type": "Percent", "value": 100, "periodSeconds": _PERIOD}
_UP: Final[JSON] = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": _PERIOD}, _MOST_POLICY],
}
_DOWN: Final[JSON] = {"selectPolicy": "Max", "policies": [_MOST_POLICY]}


class HorizontalPodAutoscalerStrategy(Strategy):
    """Fills in the default metric, and the missing rules of a behavior."""

    new_rules: ClassVar = AUTOSCALER
    update_rules: ClassVar = AUTOSCALER
    status_rules: ClassVar = AUTOSCALER_STATUS
    columns: ClassVar = (
        NAME,
        Column("Reference"),
        Column("Targets"),
        Column("MinPods"),
        Column("MaxPods"),
        Column("Replicas"),
        AGE,
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the minimum, the metric and the behavior."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": _DEFAULT_UTILIZATION}
            resource = {"name": "cpu", "target": target}
            spec["metrics"] = [{"type": "Resource", "resource": resource}]
        if "behavior" in spec:
            given = spec["behavior"]
            spec["behavior"] = {
                "scaleUp": {**_UP, **given.get("scaleUp", {})},
                "scaleDown": {**_DOWN, **given.get("scaleDown", {})},
            }

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec, status = obj["spec"], obj["status"]
        target = spec["scaleTargetRef"]
        return [
            name_of(obj),
            f"{target['kind']}/{target['name']}",
            targets_text(spec.get("metrics", []), status.get("currentMetrics") or []),
            str(spec.get("minReplicas", "<unset>")),
            str(spec["maxReplicas"]),
            status.get("currentReplicas", 0),
            age(obj, now),
        ]


class _ScalingToZero(HorizontalPodAutoscalerStrategy):
    """Autoscalers may scale to zero."""

    new_rules: ClassVar = SCALING_TO_ZERO
    update_rules: ClassVar = SCALING_TO_ZERO


KIND: Final = kind_of(
    "autoscaling/v2",
    "horizontalpodautoscalers",
    HorizontalPodAutoscalerStrategy(),
    gated=((_SCALE_TO_ZERO, _ScalingToZero()),),
)
