"""One sync of an autoscaler: its input and the expected writes."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from controller_manager.api.json_objects import JSON
from tests.controllers.autoscaling.podautoscaler.on_cluster import (
    PodOf,
    ready,
)

FINE: Final = {
    "AbleToScale": ("True", "SucceededRescale"),
    "ScalingActive": ("True", "ValidMetricFound"),
    "ScalingLimited": ("False", "DesiredWithinRange"),
}
"""The conditions after a change of scale that nothing limits."""

STAYS: Final = {**FINE, "AbleToScale": ("True", "ReadyForNewScale")}
"""The conditions if nothing is to change."""


def failed(reason: str) -> dict[str, tuple[str, str]]:
    """Return the conditions if the metrics allow no decision."""
    return {
        "AbleToScale": ("True", "SucceededGetScale"),
        "ScalingActive": ("False", reason),
    }


def limited(reason: str) -> dict[str, tuple[str, str]]:
    """Return the conditions after a change that a limit made smaller."""
    return {**FINE, "ScalingLimited": ("True", reason)}


def pods_use(*values: int) -> JSON:
    """Return answers with a custom metric of each pod."""
    named = {f"test-pod-{at}": str(value) for at, value in enumerate(values)}
    return {"pods": {"qps": named}}


def object_has(value: str) -> JSON:
    """Return answers with a custom metric of a service."""
    return {"objects": {"services/web": {"qps": value}}}


def outside_is(value: str) -> JSON:
    """Return answers with an external metric."""
    return {"external": {"qps": [{"value": value}]}}


SEVEN_TIMES_MORE: Final[JSON] = {
    "scaleUp": {"policies": [{"type": "Percent", "value": 700, "periodSeconds": 60}]}
}


class Case(Struct, frozen=True):
    """A target with some replicas, pods and metrics, and the expected writes."""

    name: str
    replicas: int
    expected: int
    metrics: tuple[JSON, ...]
    pods: tuple[PodOf, ...] = ()
    bounds: tuple[int, int] = (2, 6)
    conditions: Mapping[str, tuple[str, str]] = field(default_factory=lambda: FINE)
    answers: Mapping[str, Any] = {}
    observed: int | None = None
    gates: Mapping[str, bool] = {}
    stabilization: float = 300.0
    behavior: JSON | None = None
    was_scaled_to_zero: bool = False


THREE: Final = ready("300m", "500m", "700m")
UNREADY: Final = PodOf(cpu="500m", is_ready=False)
HOT: Final = PodOf(cpu="500m", age=0)

FIVE: Final = ready("100m", "300m", "500m", "250m", "250m")
