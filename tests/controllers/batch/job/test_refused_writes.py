"""A job survives refused writes of the API server."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import controller_of
from controller_manager.client.builder import Connections
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.batch.job.metrics import JobMetrics, action_of
from controller_manager.controllers.batch.job.orphans import KEPT, GoneJobs
from controller_manager.controllers.batch.job.pods import NO_CHANGE, PodPlan, Tally
from tests.clusters import Cluster, run_manager
from tests.controllers.batch.job.builders import (
    JobUser,
    job,
    job_config,
    make_tally,
    pod,
)
from tests.controllers.batch.job.test_on_cluster import COMPLETE, config_with_gate
from tests.controllers.user import settle
from tests.informers.test_informer import Faulty
from tests.runtime.silence import SilentWatches


async def run_again(user: JobUser, **spec: Any) -> Job:
    """Delete the job, and create it again at once."""
    await user.delete(JOBS, "j", "Background")
    return await user.run(**spec)


async def pods_of(user: JobUser, job: Job) -> Sequence[Pod]:
    return [
        pod
        for pod in await user.pods()
        if (owner := controller_of(pod)) and owner.uid == job.metadata.uid
    ]


def numbers(job: Job) -> tuple[int | None, ...]:
    status = job.status
    return (status.active, status.succeeded, status.failed, status.terminating)


@pytest.mark.looptime
@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize("silent", ["", "jobs", "pods"])
@pytest.mark.parametrize("code", [0, 1])
async def test_pods_of_the_old_job_do_not_count_for_the_new_one(
    cluster: Cluster, user: JobUser, gate: bool, silent: str, code: int
) -> None:
    """They end after the new job was created, also before a cache shows it."""
    spec: JSON = {"completions": 3, "parallelism": 3, "backoffLimit": 0}
    watches = SilentWatches(cluster.transport)
    async with cluster.manager(config_with_gate(on=gate), transport=watches):
        old = await user.run(**spec)
        await settle()
        await user.make_pods_ready(await pods_of(user, old))
        await settle()
        if silent:
            watches.silence(silent)
        new = await run_again(user, **spec)
        await settle(3)
        await user.end(*await pods_of(user, old), code=code)
        await settle()
        if silent:
            watches.speak(silent)
        await settle()
        assert numbers(await user.job()) == (3, 0, 0, 0)
        pods = await pods_of(user, new)
        assert len(pods) == 3
        freed = [pod.metadata.finalizers for pod in await pods_of(user, old)]
        assert freed == [None] * 3
        await user.end(*pods)
        await settle()
        assert numbers(await user.job()) == (0, 3, 0, 0)
        assert await user.ends() == COMPLETE
        assert len(await user.pods()) == 6


@pytest.mark.looptime
async def test_the_new_job_gets_all_its_pods(cluster: Cluster, user: JobUser) -> None:
    """Though the watch has not shown the pods of the old one when it is deleted."""
    watches = SilentWatches(cluster.transport)
    async with cluster.manager(job_config(), transport=watches):
        watches.silence("pods")
        old = await user.run(parallelism=4)
        await settle(5)
        assert len(await pods_of(user, old)) == 4
        new = await run_again(user, parallelism=2)
        await settle(5)
        assert len(await pods_of(user, new)) == 2
        for pod in await pods_of(user, old):
            await user.delete(PODS, pod.metadata.name)
        watches.speak("pods")
        await settle(60)
        assert len(await pods_of(user, new)) == 2
        assert numbers(await user.job()) == (2, 0, 0, 0)
        assert await pods_of(user, old) == []


TRACKING = "batch.kubernetes.io/job-tracking"


class Slow(Faulty):
    """Answers each request about one object after a second; counts them."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.counts: Counter[str] = Counter()
        self.now = self.most = 0

    async def request(self, request: Request) -> Response:
        plural = request.path.split("/")[-2]
        if plural not in {"jobs", "pods"}:
            return await super().request(request)
        self.counts[f"{request.method} {plural}"] += 1
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(1)
        self.now -= 1
        return await super().request(request)


async def add_pods_of_a_gone_job(user: JobUser, job: str, count: int) -> None:
    """Create pods of a job that is gone; they are being deleted."""
    owner: JSON = {"apiVersion": "batch/v1", "kind": "Job", "name": job}
    owner |= {"uid": f"uid-{job}", "controller": True}
    for number in range(count):
        name = f"{job}-{number}"
        await user.add_pod(name, finalizers=[TRACKING], ownerReferences=[owner])
        await user.delete(PODS, name)


@pytest.mark.looptime
async def test_a_gone_job_is_looked_for_once(cluster: Cluster, user: JobUser) -> None:
    """Though several workers ask for it at the same time."""
    await add_pods_of_a_gone_job(user, "a", 12)
    await add_pods_of_a_gone_job(user, "b", 12)
    slow = Slow(cluster)
    async with cluster.manager(job_config(), transport=slow):
        await settle(30)
        assert await user.pods() == []
    assert slow.counts == {"GET jobs": 2, "PATCH pods": 24}


@pytest.mark.looptime
async def test_the_number_of_remembered_gone_jobs_is_limited(cluster: Cluster) -> None:
    gone = GoneJobs(cluster.client)
    for number in range(1000):
        assert await gone.is_gone("default", f"j{number}", f"uid-{number}")
    assert len(gone) == KEPT


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
    registry = CollectorRegistry()
    metrics = JobMetrics(registry)
    metrics.pods_created(tally, 3, 1)
    name = f"job_pods_creation_total {reason}"
    assert shown(registry) == {f"{name} succeeded": 3, f"{name} failed": 1}


@pytest.mark.looptime
async def test_results_are_scraped(cluster: Cluster, user: JobUser) -> None:
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
