"""What the flags and the gates of the manager say about autoscalers."""

from datetime import timedelta

from msgspec import Struct

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscalerBehavior,
    HPAScalingRules,
)
from controller_manager.api.quantity import parse_quantity
from controller_manager.control.gates import POD_LEVEL_RESOURCES
from controller_manager.controllers.autoscaling.podautoscaler.gates import (
    CONFIGURABLE_TOLERANCE,
    SCALE_TO_ZERO,
)
from controller_manager.controllers.autoscaling.podautoscaler.options import (
    AutoscalerOptions,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.judging import (
    Judgement,
    Readiness,
    Tolerances,
)
from controller_manager.options.config import Config


class Settings(Struct, frozen=True):
    """How autoscalers are synced, apart from what their specs say."""

    tolerance: float
    readiness: Readiness
    downscale_stabilization: timedelta
    scales_to_zero: bool
    reads_tolerances: bool
    pod_level: bool

    @classmethod
    def of(cls, config: Config) -> "Settings":
        """Return the settings of a configuration."""
        options = config.of(AutoscalerOptions)
        features = config.features
        return cls(
            options.tolerance,
            Readiness(
                timedelta(seconds=options.cpu_initialization_period),
                timedelta(seconds=options.initial_readiness_delay),
            ),
            timedelta(seconds=options.downscale_stabilization),
            features.is_enabled(SCALE_TO_ZERO),
            features.is_enabled(CONFIGURABLE_TOLERANCE),
            features.is_enabled(POD_LEVEL_RESOURCES),
        )

    def judgement(self, behavior: HorizontalPodAutoscalerBehavior | None) -> Judgement:
        """Return how the metrics of an autoscaler are judged (tolerancesForHpa)."""
        tolerances = Tolerances(self.tolerance, self.tolerance)
        if behavior is not None and self.reads_tolerances:
            tolerances = Tolerances(
                up=self._tolerance_of(behavior.scale_up),
                down=self._tolerance_of(behavior.scale_down),
            )
        return Judgement(tolerances, self.readiness)

    def _tolerance_of(self, rules: HPAScalingRules | None) -> float:
        if rules is None or rules.tolerance is None:
            return self.tolerance
        return parse_quantity(rules.tolerance).nanos / 1_000_000_000
