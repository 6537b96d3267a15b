"""Jobs on a cluster in memory, on virtual time, also while users change them."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from controller_manager.api.batch.v1 import JOBS, UncountedTerminatedPods
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import controller_reference
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, RecordingTransport
from tests.controllers.batch.job.builders import JobUser, job_config
from tests.controllers.responses import is_creation
from tests.controllers.user import settle
from tests.informers.test_informer import Faulty
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime


TRACKING = "batch.kubernetes.io/job-tracking"


def creations(recording: RecordingTransport) -> int:
    return [each.path for each in recording.writes].count(PODS.path("default"))


def refused(recording: RecordingTransport) -> list[int]:
    return [each.status for each in recording.writes if each.status >= 400]


def config_with_gate(*, on: bool) -> Config:
    gates = FeatureGates({"StaleControllerConsistencyJob": on})
    return replace(job_config(), features=gates)


async def test_a_failure_is_counted_at_once(cluster: Cluster, user: JobUser) -> None:
    """During a backoff upstream reports no active pod, which the server refuses."""
    async with cluster.manager(job_config()) as recording:
        await user.run(completions=2, parallelism=2)
        await settle(5)
        fails, runs = await user.pods()
        await user.make_pods_ready([runs])
        await settle(5)
        await user.end(fails, code=1, at=user.now())
        await settle(3)
        status = (await user.job()).status
        assert (status.active, status.ready, status.failed) == (1, 1, 1)
        await settle(10)
        status = (await user.job()).status
        assert (status.active, status.ready, status.failed) == (2, 1, 1)
        assert refused(recording) == []


async def test_it_may_fail_while_suspended(cluster: Cluster, user: JobUser) -> None:
    """Meanwhile the manager sends no status that the API server refuses."""
    await user.add_pod("failed", pool="p")
    await user.end(*await user.pods(), code=1)
    async with cluster.manager(job_config()) as recording:
        await user.run(suspend=True, backoffLimit=0, **user.selecting(pool="p"))
        await settle()
        finished = ("FailureTarget", "BackoffLimitExceeded")
        assert await user.ends() == [finished]
        sent = len(recording.writes)
        await settle(300)
        assert [each.status for each in recording.writes[sent:]] == []
        await user.change(suspend=False)
        await settle(5)
        assert await user.ends() == [finished, ("Failed", "BackoffLimitExceeded")]
        assert refused(recording) == []


class Unanswered(Faulty):
    """Carries out the first creation of a pod, and loses the answer."""

    lost = False

    async def request(self, request: Request) -> Response:
        answer = await super().request(request)
        if is_creation(request) and not self.lost:
            self.lost = True
            msg = "connection reset"
            raise TransportError(msg)
        return answer


async def test_a_lost_creation_is_not_repeated(cluster: Cluster, user: JobUser) -> None:
    """The controller looks at the API server before it creates again."""
    watches = SilentWatches(Unanswered(cluster))
    async with cluster.manager(job_config(), transport=watches):
        watches.silence("pods")
        await user.run(completions=1)
        await settle(60)
        assert len(await user.pods()) == 1
        watches.speak("pods")
        await settle(60)
        assert len(await user.pods()) == 1
        assert (await user.job()).status.active == 1


class SlowSecond(Faulty):
    """Holds up the second creation of a pod, as a slow webhook does."""

    creations = 0

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.go_on = asyncio.Event()

    async def request(self, request: Request) -> Response:
        if is_creation(request):
            self.creations += 1
            if self.creations == 2:
                await self.go_on.wait()
        return await super().request(request)


@pytest.mark.parametrize("gate", [True, False])
async def test_a_job_is_not_complete_while_the_cache_lacks_a_pod_that_runs(
    cluster: Cluster, user: JobUser, gate: bool
) -> None:
    """The first pod succeeds before the second exists; upstream ends the job then."""
    transport = SlowSecond(cluster)
    watches = SilentWatches(transport)
    async with cluster.manager(config_with_gate(on=gate), transport=watches):
        await user.run(parallelism=2)
        await settle(2)
        (first,) = await user.pods()
        await user.end(first)
        await settle(2)
        watches.silence("pods")
        transport.go_on.set()
        await settle(10)
        assert await user.ends() == []
        watches.speak("pods")
        await settle(10)
        assert ((await user.job()).status.active, await user.ends()) == (1, [])
        await user.end(*await user.waiting())
        await settle(5)
        assert (await user.job()).status.succeeded == 2
        assert await user.ends() == COMPLETE


@pytest.mark.parametrize("gate", [True, False])
async def test_a_pod_is_counted_once_while_the_cache_still_shows_its_finalizer(
    cluster: Cluster, user: JobUser, gate: bool
) -> None:
    """With and without the gate of consistent reads."""
    watches = SilentWatches(cluster.transport)
    config = config_with_gate(on=gate)
    async with cluster.manager(config, transport=watches) as recording:
        await user.run(completions=3)
        await settle(20)
        (pod,) = await user.pods()
        await user.end(pod)
        await asyncio.sleep(0.5)
        watches.silence("pods")
        for number in range(5):
            await settle(10)
            await user.patch(JOBS, "j", {"metadata": {"labels": {"n": str(number)}}})
            await user.change(parallelism=number + 1)
        status = (await user.job()).status
        assert (status.succeeded, creations(recording)) == (1, 2)


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize(
    ("spec", "code", "end"),
    [
        ({"completions": 1}, 0, "Complete"),
        ({"parallelism": 1}, 0, "Complete"),
        ({"completions": 1, "completionMode": "Indexed"}, 0, "Complete"),
        ({"backoffLimit": 0}, 1, "Failed"),
    ],
    ids=["completions", "work queue", "indexed", "failed"],
)
async def test_a_job_whose_end_the_cache_does_not_show_gets_no_pod(
    cluster: Cluster, user: JobUser, gate: bool, spec: JSON, code: int, end: str
) -> None:
    """With and without the gate of consistent reads; a new job of the name runs."""
    watches = SilentWatches(cluster.transport)
    config = config_with_gate(on=gate)
    async with cluster.manager(config, transport=watches) as recording:
        await user.run(**spec)
        await settle()
        watches.silence("jobs")
        await user.end(*await user.pods(), code=code)
        for number in range(20):
            await settle(30)
            for pod in await user.pods():
                poke = {"metadata": {"labels": {"poke": str(number)}}}
                await user.patch(PODS, pod.metadata.name, poke)
        assert [each for each, _ in await user.ends()][-1] == end
        assert creations(recording) == 1
        await user.delete(JOBS, "j", "Background")
        await user.run(**spec)
        watches.speak("jobs")
        await settle()
        assert creations(recording) == 2


async def test_an_ended_surplus_pod_is_counted(cluster: Cluster, user: JobUser) -> None:
    """Its finalizer is only removed from the pod as it was cached."""
    watches = SilentWatches(cluster.transport)
    async with cluster.manager(job_config(), transport=watches):
        await user.run(completions=5, parallelism=2)
        await settle()
        pods = await user.pods()
        await user.make_pods_ready(pods[1:])
        await settle()
        watches.silence("pods")
        await user.end(pods[0])
        await user.change(parallelism=1)
        await settle(5)
        assert (await user.pods())[0].metadata.finalizers == (TRACKING,)
        watches.speak("pods")
        await settle()
        status = (await user.job()).status
        assert (status.succeeded, status.active, status.failed) == (1, 1, 0)


async def test_a_gone_job_gets_no_pods(cluster: Cluster, user: JobUser) -> None:
    """Though the cache shows it for minutes."""
    watches = SilentWatches(cluster.transport)
    async with cluster.manager(job_config(), transport=watches) as recording:
        await user.run(completions=9, parallelism=2)
        await settle()
        watches.silence("jobs")
        await user.delete(JOBS, "j", "Background")
        for _ in range(10):
            for pod in await user.pods():
                await user.delete(PODS, pod.metadata.name)
            await settle(30)
        assert creations(recording) <= 4


class Adopting(Faulty):
    """Gives a pod an owner just before its finalizer is removed for the first time."""

    def __init__(self, cluster: Cluster, user: JobUser) -> None:
        super().__init__(cluster)
        self.user = user
        self.has_adopted = False

    async def request(self, request: Request) -> Response:
        removes = b"deleteFromPrimitiveList" in (request.body or b"")
        if request.method == "PATCH" and removes and not self.has_adopted:
            self.has_adopted = True
            owner = controller_reference(await self.user.job(), JOBS)
            reference = msgspec.to_builtins(owner)
            adopted = {"metadata": {"ownerReferences": [reference]}}
            await self.user.patch(PODS, "ended", adopted)
        return await super().request(request)


async def test_an_adopted_deleted_pod_counts(cluster: Cluster, user: JobUser) -> None:
    """The finalizer is removed only from the pod without an owner that was seen."""
    await user.run(completions=2, parallelism=1, **user.selecting(pool="p"))
    await user.add_pod("ended", pool="p", finalizers=[TRACKING])
    await user.end(*await user.pods())
    await user.delete(PODS, "ended")
    adopting = Adopting(cluster, user)
    async with cluster.manager(job_config(), transport=adopting):
        await settle(30)
        assert adopting.has_adopted
        status = (await user.job()).status
        assert status.succeeded == 1
        assert status.uncounted_terminated_pods == UncountedTerminatedPods()


@pytest.mark.parametrize("is_counted", [True, False])
async def test_a_succeeded_pod_that_loses_its_owner_is_counted_once(
    cluster: Cluster, user: JobUser, is_counted: bool
) -> None:
    """The job adopts it again; upstream counts it again, or never."""
    async with cluster.manager(job_config()):
        await user.run(completions=3, parallelism=1)
        await settle()
        (pod,) = await user.pods()
        await user.end(pod)
        await settle(20 if is_counted else 0.5)
        assert (await user.job()).status.succeeded == int(is_counted)
        name = pod.metadata.name
        await user.patch(PODS, name, {"metadata": {"ownerReferences": None}})
        await settle()
        adopted = await user.client.get(PODS, "default", name)
        assert adopted.metadata.owner_references == pod.metadata.owner_references
        assert adopted.metadata.finalizers is None
        status = (await user.job()).status
        assert (status.succeeded, status.active) == (1, 1)
        assert status.uncounted_terminated_pods == UncountedTerminatedPods()


async def test_an_unknown_mode_is_left_alone(cluster: Cluster, user: JobUser) -> None:
    """A later version may know the mode."""
    async with cluster.manager(job_config()) as recording:
        await user.run(suspend=True)
        await settle()
        recording.writes.clear()
        stored = await user.client.get_json(JOBS, "default", "j")
        stored["spec"] |= {"completionMode": "Random", "suspend": False}
        cluster.server.storage.collection("jobs.batch").put(("default", "j"), stored)
        await settle()
        assert recording.writes == []
        (event,) = await user.events("UnknownCompletionMode")
        assert event.message == "Skipped Job sync because completion mode is unknown"


COMPLETE = [
    ("SuccessCriteriaMet", "CompletionsReached"),
    ("Complete", "CompletionsReached"),
]
INDEXED = {"completionMode": "Indexed"}


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
