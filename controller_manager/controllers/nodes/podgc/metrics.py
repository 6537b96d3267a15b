"""Metrics of the pod garbage collector, with upstream's names."""

from prometheus_client import CollectorRegistry, Counter


class PodGCMetrics:
    """The ``pod_gc_collector_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._deletions = Counter(
            "pod_gc_collector_force_delete_pods_total",
            "Number of pods that were to be deleted by force",
            ["namespace", "reason"],
            registry=registry,
        )
        self._errors = Counter(
            "pod_gc_collector_force_delete_pod_errors_total",
            "Number of pods that could not be deleted by force",
            ["namespace", "reason"],
            registry=registry,
        )

    def deleting(self, namespace: str, reason: str) -> None:
        """Count a pod that is about to be deleted."""
        self._deletions.labels(namespace, reason).inc()

    def failed(self, namespace: str, reason: str) -> None:
        """Count a pod that could not be deleted."""
        self._errors.labels(namespace, reason).inc()
