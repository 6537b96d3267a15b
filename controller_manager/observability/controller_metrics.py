"""What single controllers measure, with upstream's names, labels and buckets."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

_ROLLOUT_SECONDS: Final = (1, 5, 10, 30, 60, 120, 300, 600, 1200, 3600)
_AGE_RATIO: Final = (0.25, 0.5, 1, 2, 4, 8)
_DELETION_SECONDS: Final = tuple(0.1 * 2**power for power in range(14))
_PUBLISH_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))


class ReplicaSetCollectors:
    """The ``replicaset_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self.age_ratio = Histogram(
            "replicaset_controller_sorting_deletion_age_ratio",
            "Ratio of a deleted pod's age to that of the youngest ready pod",
            buckets=_AGE_RATIO,
            registry=registry,
        )
        self._skips = Counter(
            "replicaset_controller_stale_sync_skips_total",
            "Syncs put off because a cache was older than the last write",
            ["group", "resource"],
            registry=registry,
        )
        self._skips.labels("apps", "replicasets")
        self._skips.labels("", "pods")

    def skipped(self, group: str, resource: str) -> None:
        """Count a sync that was put off until `resource` is fresh enough."""
        self._skips.labels(group, resource).inc()


class RolloutCollectors:
    """How long rollouts take, which upstream does not export."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._duration = Histogram(
            "deployment_rollout_duration_seconds",
            "Seconds from a change of a deployment until it is complete",
            buckets=_ROLLOUT_SECONDS,
            registry=registry,
        )

    def completed(self, seconds: float) -> None:
        """Observe a rollout that has come to its end."""
        self._duration.observe(seconds)


class GarbageCollectorCollectors:
    """The ``garbagecollector_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._errors = Counter(
            "garbagecollector_controller_resources_sync_error_total",
            "Number of garbage collector resources sync errors",
            registry=registry,
        )

    def sync_failed(self) -> None:
        """Count a time that not all resources could be found or read."""
        self._errors.inc()


class PodGCCollectors:
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
        """Count a pod that could not be."""
        self._errors.labels(namespace, reason).inc()


class TTLAfterFinishedCollectors:
    """The ``ttl_after_finished_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._delay = Histogram(
            "ttl_after_finished_controller_job_deletion_duration_seconds",
            "Seconds from the time that a job is to be deleted until it is",
            buckets=_DELETION_SECONDS,
            registry=registry,
        )

    def deleted(self, late: float) -> None:
        """Observe a deletion that came so many seconds late."""
        self._delay.observe(late)


class RootCACollectors:
    """The ``root_ca_cert_publisher_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._syncs = Counter(
            "root_ca_cert_publisher_sync_total",
            "Number of namespace syncs by their outcome's HTTP status",
            ["code"],
            registry=registry,
        )
        self._seconds = Histogram(
            "root_ca_cert_publisher_sync_duration_seconds",
            "Seconds that a namespace sync took by its outcome's HTTP status",
            ["code"],
            buckets=_PUBLISH_SECONDS,
            registry=registry,
        )

    def synced(self, code: int, seconds: float) -> None:
        """Observe one sync."""
        self._syncs.labels(str(code)).inc()
        self._seconds.labels(str(code)).observe(seconds)
