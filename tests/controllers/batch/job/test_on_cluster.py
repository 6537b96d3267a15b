"""Jobs on a cluster in memory, on virtual time, also while users change them."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from controller_manager.api.batch.v1 import JOBS, UncountedTerminatedPods
from controller_manager.api.core.v1 import PODS
from controller_manager.api.meta import controller_reference
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, RecordingTransport
from tests.controllers.batch.job.builders import JobUser, Watcher, job_config
from tests.controllers.hands import Hands
from tests.controllers.responses import is_creation
from tests.controllers.scenarios import Scenario, scenarios
from tests.controllers.user import settle
from tests.informers.test_informer import Faulty
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime


@scenarios("batch/job")
async def test_jobs_on_a_cluster(scenario: Scenario) -> None:
    await scenario.play(Hands, config_with, Watcher)


TRACKING = "batch.kubernetes.io/job-tracking"


def creations(recording: RecordingTransport) -> int:
    return [each.path for each in recording.writes].count(PODS.path("default"))


def refused(recording: RecordingTransport) -> list[int]:
    return [each.status for each in recording.writes if each.status >= 400]


def config_with(
    *, gate: bool | None = None, gates: dict[str, bool] | None = None
) -> Config:
    """Return a config; `gate` is that of consistent reads."""
    known = {} if gate is None else {"StaleControllerConsistencyJob": gate}
    return replace(job_config(), features=FeatureGates({**known, **(gates or {})}))


def config_with_gate(*, on: bool) -> Config:
    return config_with(gate=on)


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
