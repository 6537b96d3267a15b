"""HorizontalPodAutoscaler: scales a workload by metrics."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.field_values import validate_not_negative
from controller_manager.options.gates import Gate

from .metric_targets import targets_text
from .validation import validate_autoscaler

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

    columns: ClassVar = (
        NAME,
        Column("Reference"),
        Column("Targets"),
        Column("MinPods"),
        Column("MaxPods"),
        Column("Replicas"),
        AGE,
    )

    def __init__(self, *, scales_to_zero: bool = False) -> None:
        """Take the feature gate that decides whether autoscalers may scale to zero."""
        self._lowest = 0 if scales_to_zero else 1

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

    def validate_new(self, obj: JSON) -> Sequence[Cause]:
        """Check a new autoscaler."""
        return validate_autoscaler(obj["spec"], self._lowest)

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check a changed autoscaler; one that scales to zero may go on."""
        was_zero = old["spec"].get("minReplicas") == 0
        lowest = 0 if was_zero else self._lowest
        return validate_autoscaler(new["spec"], lowest, old["spec"])

    def validate_status(self, obj: JSON) -> Sequence[Cause]:
        """Check that no count is negative."""
        names = ("currentReplicas", "desiredReplicas")
        return validate_not_negative(obj.get("status", {}), *names, field="status")

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


KIND: Final = kind_of(
    "autoscaling/v2",
    "horizontalpodautoscalers",
    HorizontalPodAutoscalerStrategy(),
    gated=((_SCALE_TO_ZERO, HorizontalPodAutoscalerStrategy(scales_to_zero=True)),),
)
