"""A job that is deleted and created again under its name."""

from collections.abc import Sequence
from typing import Any

import pytest

from controller_manager.api.batch.v1 import JOBS, Job
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import controller_of
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from tests.clusters import Cluster
from tests.controllers.batch.job.test_on_cluster import config_with_gate
from tests.controllers.batch.job.user import JobUser, job_config
from tests.controllers.user import settle
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime

COLLECTED = ("job-controller", "garbage-collector-controller")


async def run_again(user: JobUser, **spec: Any) -> Job:
    """Delete the job, and create it again at once."""
    background = DeleteOptions(propagation_policy=PropagationPolicy.BACKGROUND)
    await user.client.delete(JOBS, "default", "j", background)
    return await user.run(**spec)


async def pods_of(user: JobUser, job: Job) -> Sequence[Pod]:
    """Return the pods of a job, none of a namesake."""
    return [
        pod
        for pod in await user.pods()
        if (owner := controller_of(pod)) and owner.uid == job.metadata.uid
    ]


def numbers(job: Job) -> tuple[int | None, ...]:
    status = job.status
    return (status.active, status.succeeded, status.failed, status.terminating)


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
        assert [pod.metadata.finalizers for pod in await pods_of(user, old)] == [
            None
        ] * 3
        await user.end(*pods)
        await settle()
        assert numbers(await user.job()) == (0, 3, 0, 0)
        assert await user.ends() == [
            ("SuccessCriteriaMet", "CompletionsReached"),
            ("Complete", "CompletionsReached"),
        ]
        assert len(await user.pods()) == 6


async def test_the_garbage_collector_deletes_only_pods_of_the_old_job(
    cluster: Cluster, user: JobUser
) -> None:
    """They lose the finalizer, and none of them counts as terminating."""
    spec: JSON = {"completions": 2, "parallelism": 2}
    async with cluster.manager(job_config(controllers=COLLECTED)):
        old = await user.run(**spec)
        await settle()
        for _ in range(3):
            former, old = old, await run_again(user, **spec)
            await settle()
            assert await pods_of(user, former) == []
        assert numbers(await user.job()) == (2, 0, 0, 0)
        assert len(await user.pods()) == 2


async def test_failures_of_the_old_job_do_not_delay_the_new_one(
    cluster: Cluster, user: JobUser
) -> None:
    """The old one waits minutes for its next pod."""
    async with cluster.manager(job_config()):
        old = await user.run(backoffLimit=9)
        for _ in range(5):
            await settle(200)
            waiting = await user.waiting()
            await user.end(*waiting, code=1, at=user.now())
        await settle(5)
        assert numbers(await user.job()) == (0, 0, 5, 0)
        new = await run_again(user, backoffLimit=9)
        await settle(2)
        assert len(await pods_of(user, new)) == 1
        assert numbers(await user.job()) == (1, 0, 0, 0)
        assert len(await pods_of(user, old)) == 5


async def test_the_new_job_gets_the_number_of_pods_that_the_old_one_got_before(
    cluster: Cluster, user: JobUser
) -> None:
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
            await user.client.delete(PODS, "default", pod.metadata.name)
        watches.speak("pods")
        await settle(60)
        assert len(await pods_of(user, new)) == 2
        assert numbers(await user.job()) == (2, 0, 0, 0)
        assert await pods_of(user, old) == []
