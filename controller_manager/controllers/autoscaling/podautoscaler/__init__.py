"""horizontal-pod-autoscaler-controller: scales workloads by metrics of their pods."""

from typing import Final

from controller_manager.api.autoscaling.v2 import HORIZONTAL_POD_AUTOSCALERS
from controller_manager.api.core.v1 import PODS
from controller_manager.control.gates import POD_LEVEL_RESIZE, POD_LEVEL_RESOURCES
from controller_manager.informers.reads import Reads
from controller_manager.options.controller_options import (
    ControllerOptions,
    concurrency,
    option,
)
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, Permission, allow


class AutoscalerOptions(ControllerOptions):
    """The period of syncs, and the limits for metrics; times are in seconds."""

    concurrent_syncs: int = concurrency(
        "concurrent-horizontal-pod-autoscaler-syncs",
        5,
        "HPAController.ConcurrentHorizontalPodAutoscalerSyncs",
        "horizontal pod autoscalers",
    )
    cpu_initialization_period: float = option(
        "horizontal-pod-autoscaler-cpu-initialization-period",
        "duration",
        "5m0s",
        "The time after a pod's start for which CPU samples may be skipped.",
        "HPAController.HorizontalPodAutoscalerCPUInitializationPeriod",
    )
    downscale_stabilization: float = option(
        "horizontal-pod-autoscaler-downscale-stabilization",
        "duration",
        "5m0s",
        "The time over which the highest recommendation counts.",
        "HPAController.HorizontalPodAutoscalerDownscaleStabilizationWindow",
    )
    initial_readiness_delay: float = option(
        "horizontal-pod-autoscaler-initial-readiness-delay",
        "duration",
        "30s",
        "The time after a pod's start for which readiness is its first one.",
        "HPAController.HorizontalPodAutoscalerInitialReadinessDelay",
    )
    sync_period: float = option(
        "horizontal-pod-autoscaler-sync-period",
        "duration",
        "15s",
        "The period for syncing the number of pods.",
        "HPAController.HorizontalPodAutoscalerSyncPeriod",
    )
    tolerance: float = option(
        "horizontal-pod-autoscaler-tolerance",
        "float",
        "0.1",
        "The change in the ratio of metrics from which on to scale.",
        "HPAController.HorizontalPodAutoscalerTolerance",
    )


SCALE_TO_ZERO: Final = Gate("HPAScaleToZero", "ALPHA", default=False)
"""An autoscaler may scale its target to zero, and back by an object's metric.

The API server refuses minReplicas 0 while its own gate is disabled.
"""

CONFIGURABLE_TOLERANCE: Final = Gate("HPAConfigurableTolerance")
"""The tolerances of an autoscaler's behavior count instead of the manager's."""

_SUBJECT = "horizontal-pod-autoscaler"

CONTROLLER = Descriptor(
    name="horizontal-pod-autoscaler-controller",
    aliases=("horizontalpodautoscaling",),
    load=".controller:AutoscalerReconciler",
    requires=(HORIZONTAL_POD_AUTOSCALERS, PODS),
    reads=(
        Reads(
            PODS,
            *("spec.containers.name", "spec.containers.resources.requests"),
            *("spec.initContainers.name", "spec.initContainers.restartPolicy"),
            "spec.initContainers.resources.requests",
            *("spec.resources.requests", "spec.overhead"),
            *("status.phase", "status.startTime", "status.conditions[Ready]"),
        ),
    ),
    options=AutoscalerOptions,
    gates=(
        SCALE_TO_ZERO,
        CONFIGURABLE_TOLERANCE,
        POD_LEVEL_RESOURCES,
        POD_LEVEL_RESIZE,
    ),
    permissions=(
        allow(HORIZONTAL_POD_AUTOSCALERS, "get", "list", "watch"),
        allow(HORIZONTAL_POD_AUTOSCALERS, "update", subresource="status"),
        Permission("*", "*/scale", ("get", "update")),
        allow(PODS, "list", "watch"),
        Permission("metrics.k8s.io", PODS.plural, ("list", "watch")),
        Permission("custom.metrics.k8s.io", "*", ("get", "list", "watch")),
        Permission("external.metrics.k8s.io", "*", ("get", "list", "watch")),
        *RECORD_EVENTS,
    ),
    metrics=(
        "horizontal_pod_autoscaler_controller_reconciliations_total",
        "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds",
        "horizontal_pod_autoscaler_controller_metric_computation_total",
        "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds",
        "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers",
        "horizontal_pod_autoscaler_controller_desired_replicas",
    ),
    component=_SUBJECT,
    service_account=_SUBJECT,
    # Upstream has a client, with a rate limit of its own, for each metrics API.
    qps_factor=4,
    burst_factor=4,
    # A quarter for each of the three metrics APIs, which may hang, and for the others.
    in_flight=lambda config: 4 * config.of(AutoscalerOptions).concurrent_syncs,
)
