"""The finalizers of pods that no job counts any more."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.batch.job import JobOptions
from controller_manager.controllers.batch.job.orphans import KEPT, GoneJobs
from tests.clusters import Cluster
from tests.controllers.batch.job.user import JobUser, job_config
from tests.controllers.user import settle
from tests.informers.test_informer import Faulty

pytestmark = pytest.mark.looptime

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
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job,
        "uid": f"uid-{job}",
        "controller": True,
    }
    for number in range(count):
        name = f"{job}-{number}"
        await user.add_pod(name, finalizers=[TRACKING], ownerReferences=[owner])
        await user.client.delete(PODS, "default", name)


@pytest.mark.parametrize("workers", [1, 5, 10])
async def test_orphans_of_many_jobs_have_as_many_workers_as_jobs(
    cluster: Cluster, user: JobUser, workers: int
) -> None:
    """Behind a slow API server; the job of each pod is looked for first."""
    for number in range(20):
        await add_pods_of_a_gone_job(user, f"j{number}", 1)
    slow = Slow(cluster)
    options = JobOptions(concurrent_syncs=workers)
    config = replace(job_config(), controllers={JobOptions: options})
    async with cluster.manager(config, transport=slow):
        await settle(2 * 20 / workers - 1)
        assert len(await user.pods()) > 0
        await settle(2)
        assert await user.pods() == []
    assert slow.most == workers
    assert slow.counts == {"GET jobs": 20, "PATCH pods": 20}


async def test_a_gone_job_is_looked_for_once_for_all_its_pods(
    cluster: Cluster, user: JobUser
) -> None:
    """Though several workers ask for it at the same time."""
    await add_pods_of_a_gone_job(user, "a", 12)
    await add_pods_of_a_gone_job(user, "b", 12)
    slow = Slow(cluster)
    async with cluster.manager(job_config(), transport=slow):
        await settle(30)
        assert await user.pods() == []
    assert slow.counts == {"GET jobs": 2, "PATCH pods": 24}


async def test_the_number_of_remembered_gone_jobs_is_limited(
    cluster: Cluster,
) -> None:
    """The answers about the last jobs are kept, each once."""
    gone = GoneJobs(cluster.client)
    for number in range(1000):
        assert await gone.is_gone("default", f"j{number}", f"uid-{number}")
    assert len(gone) == KEPT
