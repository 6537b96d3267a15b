"""Metrics of horizontal pod autoscalers, with upstream's names."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS: Final = tuple(0.001 * 2**power for power in range(15))

_PREFIX: Final = "horizontal_pod_autoscaler_controller_"

NONE: Final = "none"

SPEC: Final = "spec"
INTERNAL: Final = "internal"


def action_of(before: int, after: int) -> str:
    """Return the label of a change of the number of replicas."""
    if after == before:
        return NONE
    return "scale_up" if after > before else "scale_down"


class AutoscalerMetrics:
    """The ``horizontal_pod_autoscaler_controller_*`` metrics, as upstream's monitor."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""

        def histogram(name: str, text: str, *labels: str) -> Histogram:
            return Histogram(
                _PREFIX + name, text, labels, buckets=_BUCKETS, registry=registry
            )

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(_PREFIX + name, text, labels, registry=registry)

        of_sync, of_metric = ("action", "error"), ("action", "error", "metric_type")
        self._syncs = counter(
            "reconciliations_total",
            "Number of reconciliations of HPA controller.",
            *of_sync,
        )
        self._sync_seconds = histogram(
            "reconciliation_duration_seconds",
            "The time(seconds) that the HPA controller takes to reconcile once.",
            *of_sync,
        )
        self._computations = counter(
            "metric_computation_total", "Number of metric computations.", *of_metric
        )
        self._computation_seconds = histogram(
            "metric_computation_duration_seconds",
            "The time(seconds) that the HPA controller takes to calculate one metric.",
            *of_metric,
        )
        self.autoscalers = Gauge(
            f"{_PREFIX}num_horizontal_pod_autoscalers",
            "Current number of controlled HPA objects.",
            registry=registry,
        )
        self.desired = Gauge(
            f"{_PREFIX}desired_replicas",
            "Current desired replica count for HPA objects.",
            ("namespace", "hpa_name"),
            registry=registry,
        )

    def synced(self, action: str, error: str, seconds: float) -> None:
        """Observe a sync."""
        self._syncs.labels(action, error).inc()
        self._sync_seconds.labels(action, error).observe(seconds)

    def computed(
        self, action: str, error: str, metric_type: str, seconds: float
    ) -> None:
        """Observe that one metric was read and replicas were computed from it."""
        self._computations.labels(action, error, metric_type).inc()
        self._computation_seconds.labels(action, error, metric_type).observe(seconds)

    def forget(self, namespace: str, name: str) -> None:
        """Drop the metric of an autoscaler that is gone."""
        self.desired.remove_by_labels({"namespace": namespace, "hpa_name": name})
