"""The flags and feature gates of the autoscaler, and the settings that they become."""

from datetime import timedelta
from typing import Final

from msgspec import Struct

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscalerBehavior,
    HPAScalingRules,
)
from controller_manager.api.quantity import parse_quantity
from controller_manager.control.gates import POD_LEVEL_RESOURCES
from controller_manager.options.config import Config
from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag, concurrency
from controller_manager.options.gates import Gate


class AutoscalerOptions(ControllerOptions):
    """The period of syncs, and the limits for metrics; times are in seconds."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-horizontal-pod-autoscaler-syncs",
            5,
            "HPAController.ConcurrentHorizontalPodAutoscalerSyncs",
            "horizontal pod autoscalers",
        )
    )
    cpu_initialization_period: float = option(
        Flag(
            "horizontal-pod-autoscaler-cpu-initialization-period",
            "duration",
            "5m0s",
            "The time after a pod's start for which CPU samples may be skipped.",
            "HPAController.HorizontalPodAutoscalerCPUInitializationPeriod",
        )
    )
    downscale_stabilization: float = option(
        Flag(
            "horizontal-pod-autoscaler-downscale-stabilization",
            "duration",
            "5m0s",
            "The time over which the highest recommendation counts.",
            "HPAController.HorizontalPodAutoscalerDownscaleStabilizationWindow",
        )
    )
    initial_readiness_delay: float = option(
        Flag(
            "horizontal-pod-autoscaler-initial-readiness-delay",
            "duration",
            "30s",
            "The time after a pod's start for which readiness is its first one.",
            "HPAController.HorizontalPodAutoscalerInitialReadinessDelay",
        )
    )
    sync_period: float = option(
        Flag(
            "horizontal-pod-autoscaler-sync-period",
            "duration",
            "15s",
            "The period for syncing the number of pods.",
            "HPAController.HorizontalPodAutoscalerSyncPeriod",
        )
    )
    tolerance: float = option(
        Flag(
            "horizontal-pod-autoscaler-tolerance",
            "float",
            "0.1",
            "The change in the ratio of metrics from which on to scale.",
            "HPAController.HorizontalPodAutoscalerTolerance",
        )
    )


SCALE_TO_ZERO: Final = Gate("HPAScaleToZero", "ALPHA", default=False)
"""An autoscaler may scale its target to zero, and back by an object's metric.

The API server refuses minReplicas 0 while its own gate is disabled.
"""

CONFIGURABLE_TOLERANCE: Final = Gate("HPAConfigurableTolerance")
"""The tolerances of an autoscaler's behavior count instead of the manager's."""


class Tolerances(Struct, frozen=True):
    """The distances from the target at which nothing is changed; 0.1 stands for 10 %.

    Upstream: Tolerances in pkg/controller/podautoscaler/replica_calculator.go.
    """

    up: float
    down: float

    def allow(self, usage_ratio: float) -> bool:
        """Tell whether the ratio of usage to target asks for no change."""
        return 1.0 - self.down <= usage_ratio <= 1.0 + self.up


class Readiness(Struct, frozen=True):
    """The times after the start of a pod in which its CPU usage may be distorted.

    Upstream: --horizontal-pod-autoscaler-cpu-initialization-period and
    --horizontal-pod-autoscaler-initial-readiness-delay.
    """

    cpu_initialization_period: timedelta
    initial_readiness_delay: timedelta


class Thresholds(Struct, frozen=True):
    """The tolerances and readiness times for the metrics of one autoscaler."""

    tolerances: Tolerances
    readiness: Readiness


class Settings(Struct, frozen=True):
    """The settings of all autoscalers, from flags and feature gates."""

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

    def thresholds(
        self, behavior: HorizontalPodAutoscalerBehavior | None
    ) -> Thresholds:
        """Return the thresholds for the metrics of an autoscaler (tolerancesForHpa)."""
        tolerances = Tolerances(self.tolerance, self.tolerance)
        if behavior is not None and self.reads_tolerances:
            tolerances = Tolerances(
                up=self._tolerance_of(behavior.scale_up),
                down=self._tolerance_of(behavior.scale_down),
            )
        return Thresholds(tolerances, self.readiness)

    def _tolerance_of(self, rules: HPAScalingRules | None) -> float:
        if rules is None or rules.tolerance is None:
            return self.tolerance
        return parse_quantity(rules.tolerance).nanos / 1_000_000_000
