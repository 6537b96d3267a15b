"""A sync that must leave the number of pods as it is counts them nevertheless."""

import pytest

from controller_manager.api.batch.v1 import JOBS
from controller_manager.api.core.v1 import PODS
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from tests.clusters import Cluster
from tests.controllers.batch.job.test_on_cluster import config_with_gate, creations
from tests.controllers.batch.job.user import JobUser, job_config
from tests.controllers.user import settle
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime


async def test_a_job_that_is_being_deleted_gets_no_pods(
    cluster: Cluster, user: JobUser
) -> None:
    """None is deleted, either; those that run lose their finalizer."""
    async with cluster.manager(job_config()) as recording:
        await user.run(completions=3, parallelism=2)
        await settle()
        ends, _ = await user.pods()
        options = DeleteOptions(propagation_policy=PropagationPolicy.FOREGROUND)
        await user.client.delete(JOBS, "default", "j", options)
        await user.end(ends)
        await settle()
        job = await user.job()
        assert (job.status.succeeded, job.status.active) == (1, 1)
        assert [each.metadata.finalizers for each in await user.pods()] == [None] * 2
        assert creations(recording) == 2
        assert "DELETE" not in {each.method for each in recording.writes}


async def test_no_pods_are_created_or_deleted_while_the_cache_lacks_writes(
    cluster: Cluster, user: JobUser
) -> None:
    """Without the gate of consistent reads; ended pods are counted."""
    watches = SilentWatches(cluster.transport)
    config = config_with_gate(on=False)
    async with cluster.manager(config, transport=watches) as recording:
        await user.run(completions=9, parallelism=2)
        await settle()
        ends, _ = await user.pods()
        await user.client.delete(PODS, "default", ends.metadata.name)
        await settle(0.5)
        watches.silence("pods")
        await settle(10)
        before = creations(recording)
        await user.change(parallelism=1)
        await settle(60)
        await user.change(parallelism=5)
        await settle(60)
        assert creations(recording) == before
        assert "DELETE" not in {each.method for each in recording.writes}
        watches.speak("pods")
        await settle(60)
        assert (await user.job()).status.active == 5


async def test_a_job_that_ends_gets_no_pods(cluster: Cluster, user: JobUser) -> None:
    """Its active pods are deleted instead."""
    standing = {"type": "FailureTarget", "status": "True", "reason": "R"}
    async with cluster.manager(job_config()) as recording:
        await user.run(completions=3)
        await settle()
        status = {"status": {"conditions": [standing]}}
        await user.client.patch(JOBS, "default", "j", status, subresource="status")
        await settle()
        assert await user.pods() == []
        assert await user.ends() == [("FailureTarget", "R"), ("Failed", "R")]
        assert creations(recording) == 1
