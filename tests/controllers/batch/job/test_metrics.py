"""The metrics of the job controller, as a scraper sees them."""

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.client.builder import Connections
from controller_manager.controllers.batch.job.metrics import JobMetrics, action_of
from controller_manager.controllers.batch.job.pods import NO_CHANGE, PodPlan, Tally
from tests.clusters import Cluster, run_manager
from tests.controllers.batch.job.cases import job, make_tally, pod
from tests.controllers.batch.job.user import JobUser, job_config
from tests.controllers.user import settle

Samples = dict[str, float]

_PREFIX = "job_controller_"
_LEFT_OUT = ("_created", "_bucket", "_sum", "stale_sync_skips_total")


def shown(registry: CollectorRegistry) -> Samples:
    """Return the counts that are not 0, by name and labels."""
    return {
        sample.name.removeprefix(_PREFIX)
        + "".join(f" {value or '-'}" for _, value in sorted(sample.labels.items())): (
            sample.value
        )
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name.startswith(_PREFIX)
        and not sample.name.endswith(_LEFT_OUT)
        and sample.value
    }


@pytest.mark.parametrize(
    ("plan", "action"),
    [
        (PodPlan(create=1), "pods_created"),
        (PodPlan(wait=1), "pods_created"),
        (PodPlan(delete=(pod("p"),)), "pods_deleted"),
        (NO_CHANGE, "tracking"),
    ],
)
def test_a_sync_has_the_name_of_its_action(plan: PodPlan, action: str) -> None:
    """As upstream, a wait for the backoff counts as a creation."""
    assert action_of(plan) == action


def test_a_pod_that_ends_is_added_until_its_finalizer_goes() -> None:
    """That holds for each way in which the pod appears and disappears."""
    registry = CollectorRegistry()
    metrics = JobMetrics(registry)
    runs, ended = pod("p"), pod("p", "Succeeded")
    free = pod("p", "Succeeded", tracked=False)
    for old, new in (
        (None, runs),
        (runs, ended),
        (ended, ended),
        (ended, free),
        (free, None),
        (None, ended),
        (ended, None),
    ):
        metrics.pod_changed(old, new)
    name = "terminated_pods_tracking_finalizer_total"
    assert shown(registry) == {f"{name} add": 2, f"{name} delete": 2}


@pytest.mark.parametrize(
    ("tally", "reason"),
    [
        (make_tally(job()), "new"),
        (make_tally(job({"failed": 1})), "recreate_terminating_or_failed"),
        (
            make_tally(job(), [pod("p", deleting=True)], spare_terminating=True),
            "recreate_terminating_or_failed",
        ),
        (
            make_tally(job({"failed": 1}, podReplacementPolicy="Failed")),
            "recreate_failed",
        ),
    ],
)
def test_a_creation_has_a_reason(tally: Tally, reason: str) -> None:
    """Successes and failures are counted apart."""
    registry = CollectorRegistry()
    metrics = JobMetrics(registry)
    metrics.pods_created(tally, 3, 1)
    name = f"job_pods_creation_total {reason}"
    assert shown(registry) == {f"{name} succeeded": 3, f"{name} failed": 1}


@pytest.mark.looptime
async def test_a_scraper_sees_the_results_of_jobs_and_pods(
    cluster: Cluster, user: JobUser
) -> None:
    """One job is complete, one fails by its policy, one is of another controller.

    Upstream counts a complete job with the reason of its condition, too.
    """
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [9]}}]
    connections = Connections(cluster.transport, root_ca="PEM")
    config = job_config()
    async with run_manager(connections, cluster.clock, cluster.rng, config) as manager:
        await user.run("good", completions=2, parallelism=2, completionMode="Indexed")
        await settle(5)
        await user.end(*await user.waiting())
        await settle(5)
        await user.run("bad", podFailurePolicy={"rules": rules})
        await user.run("alien", managedBy="example.com/other")
        await settle(5)
        await user.end(*await user.waiting(), code=9)
        await settle(5)
        found = shown(manager._registry)
    syncs = {name for name in found if name.startswith("job_sync")}
    assert {name: found[name] for name in found if name not in syncs} == {
        "job_finished_indexes_total global succeeded": 2,
        "job_pods_creation_total new succeeded": 3,
        "job_pods_finished_total Indexed succeeded": 2,
        "job_pods_finished_total NonIndexed failed": 1,
        "jobs_by_external_controller_total example.com/other": 1,
        "jobs_finished_total Indexed CompletionsReached succeeded": 1,
        "jobs_finished_total NonIndexed PodFailurePolicy failed": 1,
        "pod_failures_handled_by_failure_policy_total FailJob": 1,
        "terminated_pods_tracking_finalizer_total add": 3,
        "terminated_pods_tracking_finalizer_total delete": 3,
    }
    for mode in ("Indexed", "NonIndexed"):
        for action in ("pods_created", "reconciling"):
            assert f"job_syncs_total {action} {mode} success" in syncs
            assert f"job_sync_duration_seconds_count {action} {mode} success" in syncs
