"""Jobs that users and other managers change while they run."""

from dataclasses import replace

import pytest

from controller_manager.api.batch.v1 import JOBS
from controller_manager.api.core.v1 import PODS
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.controllers.batch.job.user import JobUser, job_config
from tests.controllers.user import settle

pytestmark = pytest.mark.looptime

INDEXED = {"completionMode": "Indexed"}


async def test_a_success_outside_of_a_smaller_job_is_needed_again_in_a_larger_one(
    cluster: Cluster, user: JobUser
) -> None:
    """An elastic job is made smaller, and then larger."""
    async with cluster.manager(job_config()) as recording:
        await user.run(completions=3, parallelism=3, **INDEXED)
        await settle(3)
        await user.end((await user.pods())[2])
        await settle(3)
        assert (await user.job()).status.completed_indexes == "2"
        await user.change(completions=2, parallelism=2)
        await settle(3)
        status = (await user.job()).status
        assert (status.completed_indexes, status.succeeded, status.active) == ("", 0, 2)
        await user.change(completions=3, parallelism=3)
        await settle(3)
        await user.end(*await user.waiting())
        await settle(3)
        status = (await user.job()).status
        assert (status.completed_indexes, status.succeeded) == ("0-2", 3)
        assert await user.ends() == [
            ("SuccessCriteriaMet", "CompletionsReached"),
            ("Complete", "CompletionsReached"),
        ]
        assert [each.status for each in recording.writes if each.status >= 400] == []


async def test_a_job_that_an_older_manager_suspended_is_resumed(
    cluster: Cluster, user: JobUser
) -> None:
    """That manager has left the start time, from which no deadline counts."""
    await user.run(suspend=True, activeDeadlineSeconds=30)
    suspended = {
        "type": "Suspended",
        "status": "True",
        "reason": "JobSuspended",
        "message": "Job suspended",
    }
    status = {"startTime": "2020-01-01T00:00:00Z", "conditions": [suspended]}
    patch = {"status": status}
    await user.client.patch(JOBS, "default", "j", patch, subresource="status")
    async with cluster.manager(job_config()) as recording:
        await settle(5)
        await user.change(suspend=False)
        await settle(5)
        assert (await user.ends(), len(await user.pods())) == ([], 1)
        assert [each.status for each in recording.writes if each.status >= 400] == []
        await settle(30)
        assert (await user.ends())[0] == ("FailureTarget", "DeadlineExceeded")


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_suspended_job_has_no_start_time_unless_a_gate_is_disabled(
    cluster: Cluster, user: JobUser, *, enabled: bool
) -> None:
    """Managers before 1.35 left it; a job that is resumed starts anew either way."""
    gate = "MutableSchedulingDirectivesForSuspendedJobs"
    features = FeatureGates({} if enabled else {gate: False})
    async with cluster.manager(replace(job_config(), features=features)):
        await user.run()
        await settle(5)
        started = (await user.job()).status.start_time
        await user.change(suspend=True)
        await settle(5)
        suspended = (await user.job()).status
        await user.change(suspend=False)
        await settle(5)
        resumed = (await user.job()).status
    assert started is not None
    assert suspended.start_time == (None if enabled else started)
    assert resumed.start_time is not None
    assert resumed.start_time > started


@pytest.mark.parametrize("policy", list(PropagationPolicy))
async def test_pods_of_a_deleted_job_lose_the_finalizer(
    cluster: Cluster, user: JobUser, policy: PropagationPolicy
) -> None:
    """They run while their job is deleted; no job counts them any more."""
    config = job_config(controllers=("job-controller", "garbage-collector-controller"))
    async with cluster.manager(config):
        await user.run(completions=4, parallelism=2)
        await settle(5)
        options = DeleteOptions(propagation_policy=policy)
        await user.client.delete(JOBS, "default", "j", options)
        await settle(30)
        assert (await user.client.list_page(JOBS)).items == []
        left = [each.metadata.finalizers for each in await user.pods()]
        orphaned = policy is PropagationPolicy.ORPHAN
        assert left == ([None, None] if orphaned else [])


async def test_a_new_job_of_another_manager_does_not_keep_the_pods_of_the_old_one(
    cluster: Cluster, user: JobUser
) -> None:
    """The new job has the same name, and is left alone."""
    async with cluster.manager(job_config()) as recording:
        await user.run(completions=1)
        await settle(5)
        (pod,) = await user.pods()
        await user.end(pod)
        options = DeleteOptions(propagation_policy=PropagationPolicy.BACKGROUND)
        await user.client.delete(JOBS, "default", "j", options)
        recording.writes.clear()
        await user.run(completions=1, managedBy="example.com/other")
        await settle(30)
        assert (await user.job()).status.active == 0
        assert [each.method for each in recording.writes] == ["PATCH"]
        left = await user.client.get(PODS, "default", pod.metadata.name)
        assert left.metadata.finalizers is None
