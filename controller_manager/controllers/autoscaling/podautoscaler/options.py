"""The flags of the horizontal pod autoscaler controller."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag, concurrency


class AutoscalerOptions(ControllerOptions):
    """How often autoscalers are synced, and how metrics are judged (seconds)."""

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
            "How often to sync the number of pods.",
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
