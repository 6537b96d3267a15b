"""Metrics of the job controller, with upstream's names (metrics.go)."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from controller_manager.api.batch.v1 import JOBS, Job, JobStatus
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.pods import is_terminal
from controller_manager.control.expectations import StaleSyncs

from . import pods

_SYNC_SECONDS: Final = tuple(0.004 * 2**power for power in range(15))

RECONCILING: Final = "reconciling"


def action_of(plan: pods.PodPlan) -> str:
    """Return the name of what a sync does about the number of pods."""
    if plan.delete:
        return "pods_deleted"
    return "pods_created" if plan.create or plan.wait else "tracking"


class JobMetrics:
    """The ``job_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors, with the series at zero that every job may need."""

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"job_controller_{name}", text, labels, registry=registry)

        of_syncs = ("completion_mode", "result", "action")
        self._duration = Histogram(
            "job_controller_job_sync_duration_seconds",
            "The time it took to sync a job",
            of_syncs,
            buckets=_SYNC_SECONDS,
            registry=registry,
        )
        self._syncs = counter("job_syncs_total", "The number of job syncs", *of_syncs)
        self.finished = counter(
            "jobs_finished_total",
            "The number of finished jobs",
            *("completion_mode", "result", "reason"),
        )
        self.external = counter(
            "jobs_by_external_controller_total",
            "The number of Jobs managed by an external controller",
            "controller_name",
        )
        self.stale_syncs = StaleSyncs(registry, "job_controller", JOBS, PODS)
        self._pods_finished = counter(
            "job_pods_finished_total",
            "The number of finished Pods that are fully tracked",
            *("completion_mode", "result"),
        )
        self.policy = counter(
            "pod_failures_handled_by_failure_policy_total",
            "The number of failed Pods to which the failure policy was applied",
            "action",
        )
        self._finalizers = counter(
            "terminated_pods_tracking_finalizer_total",
            "The number of terminated pods that got or lost the finalizer of jobs",
            "event",
        )
        self._indexes = counter(
            "job_finished_indexes_total",
            "The number of finished indexes",
            *("status", "backoffLimit"),
        )
        self._creations = counter(
            "job_pods_creation_total",
            "The number of Pods created, by the reason for their creation",
            *("reason", "status"),
        )
        for mode in (pods.INDEXED, pods.NON_INDEXED):
            for result in ("succeeded", "failed"):
                self._pods_finished.labels(mode, result)
        for event in ("add", "delete"):
            self._finalizers.labels(event)

    def synced(self, job: Job, action: str, seconds: float, *, failed: bool) -> None:
        """Observe a sync of a job that has not finished."""
        labels = (pods.completion_mode(job), "error" if failed else "success", action)
        self._duration.labels(*labels).observe(seconds)
        self._syncs.labels(*labels).inc()

    def counted(
        self, job: Job, old: JobStatus, new: JobStatus, read: pods.ReadIndexes
    ) -> None:
        """Count the pods and indexes by which two statuses differ."""
        mode = pods.completion_mode(job)
        succeeded = new.succeeded - old.succeeded
        if pods.is_indexed(job):
            count = pods.index_count(job)
            succeeded = _more(old.completed_indexes, new.completed_indexes, count, read)
            limit = "perIndex" if pods.has_limit_per_index(job) else "global"
            self._indexes.labels("succeeded", limit).inc(succeeded)
            failed = _more(
                old.failed_indexes or "", new.failed_indexes or "", count, read
            )
            if failed:
                self._indexes.labels("failed", limit).inc(failed)
        self._pods_finished.labels(mode, "succeeded").inc(max(0, succeeded))
        self._pods_finished.labels(mode, "failed").inc(max(0, new.failed - old.failed))

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Count an ended pod with the finalizer that came, or went or lost it."""
        before, after = _is_ended_and_tracked(old), _is_ended_and_tracked(new)
        if before != after:
            self._finalizers.labels("add" if after else "delete").inc()

    def pods_created(self, tally: pods.Tally, created: int, failed: int) -> None:
        """Count pods that were created, and those that could not be."""
        reason = _reason_of_creation(tally)
        if created:
            self._creations.labels(reason, "succeeded").inc(created)
        if failed:
            self._creations.labels(reason, "failed").inc(failed)


def _more(old: str, new: str, count: int, read: pods.ReadIndexes) -> int:
    if old == new:
        return 0
    return max(0, len(read(new, count)) - len(read(old, count)))


def _is_ended_and_tracked(pod: Pod | None) -> bool:
    return pod is not None and is_terminal(pod) and pods.has_finalizer(pod)


def _reason_of_creation(tally: pods.Tally) -> str:
    if tally.failed:
        policy = tally.job.spec.pod_replacement_policy
        if policy == "Failed":
            return "recreate_failed"
        return "recreate_terminating_or_failed"
    return "recreate_terminating_or_failed" if tally.terminating else "new"
