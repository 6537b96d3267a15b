"""A process is a candidate while its LeaseCandidate is there and answers pings."""

import asyncio
import io
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
import pytest_asyncio

from controller_manager.api.coordination.v1beta1 import (
    LEASE_CANDIDATES,
    LeaseCandidateSpec,
)
from controller_manager.api.scalars import format_micro_time, parse_time
from controller_manager.client.leadership.coordinated_election import Candidacy
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.observability.logs import make_logger
from tests.client.leadership import elections
from tests.client.leadership.elections import CONFIG, NAME, Faulty
from tests.clusters import Cluster

pytestmark = pytest.mark.looptime

IDENTITY = "Node_1_4f8c1c53-9d5c-8b8e-8d57-0b7a4b1e2c3d"
"""Names of hosts need not be those of objects."""


@pytest_asyncio.fixture
async def cluster() -> Cluster:
    return Cluster(features=elections.COORDINATED)


class Standing:
    def __init__(self, cluster: Cluster, *, leader: bool = True) -> None:
        self.transport = Faulty(cluster.transport)
        self.log = io.StringIO()
        self.hangs = False
        self.candidacy = Candidacy(
            Client(self.transport, cluster.clock),
            CONFIG,
            IDENTITY,
            emulated_version="1.35",
            knows_leader=lambda: leader,
            clock=cluster.clock,
            logger=make_logger(stream=self.log),
            may_lead=lambda: not self.hangs,
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["Standing", None]:
        task = asyncio.create_task(self.candidacy.run())
        await asyncio.sleep(0.05)
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def spec_of(cluster: Cluster) -> LeaseCandidateSpec:
    (candidate,) = await elections.candidates(cluster)
    return candidate.spec


async def test_a_candidate_has_its_emulated_version(cluster: Cluster) -> None:
    started = elections.now_of(cluster)
    async with Standing(cluster).running() as standing:
        (candidate,) = await elections.candidates(cluster)
        metadata = candidate.metadata
        assert (metadata.namespace, metadata.name) == (elections.NAMESPACE, IDENTITY)
        assert candidate.spec == LeaseCandidateSpec(
            lease_name=NAME,
            renew_time=started,
            binary_version="1.36.2",
            emulation_version="1.35.0",
            strategy="OldestEmulationVersion",
        )
        assert standing.candidacy.problem() is None


async def test_a_candidate_renews_every_five_minutes(cluster: Cluster) -> None:
    """Else the API server deletes it after half an hour."""
    started = cluster.clock.now()
    async with Standing(cluster).running():
        await asyncio.sleep(301)
        renewed = (await spec_of(cluster)).renew_time
        assert renewed == format_micro_time(started + timedelta(minutes=5))


async def test_a_ping_is_answered_at_once(cluster: Cluster) -> None:
    """An API server waits five seconds for the answers."""
    async with Standing(cluster).running():
        await asyncio.sleep(100)
        await elections.ping(cluster, IDENTITY)
        pinged = cluster.clock.now()
        await asyncio.sleep(0.1)
        spec = await spec_of(cluster)
        assert spec.ping_time == format_micro_time(pinged)
        assert spec.renew_time is not None
        assert (
            timedelta(0) < parse_time(spec.renew_time) - pinged < timedelta(seconds=1)
        )


async def test_a_ping_waits_while_the_controllers_hang(cluster: Cluster) -> None:
    """So the API server elects another process."""
    async with Standing(cluster).running() as standing:
        await asyncio.sleep(100)
        standing.hangs = True
        before = (await spec_of(cluster)).renew_time
        await elections.ping(cluster, IDENTITY)
        await asyncio.sleep(30)
        assert (await spec_of(cluster)).renew_time == before
        problem = standing.candidacy.problem()
        assert problem == "no lease candidate: the controllers hang"
        standing.hangs = False
        await asyncio.sleep(31)
        assert (await spec_of(cluster)).renew_time != before
        assert standing.candidacy.problem() is None


async def test_a_ping_from_the_future_is_answered_once(cluster: Cluster) -> None:
    """The answer is later than the ping, so it does not ask for another answer."""
    async with Standing(cluster).running() as standing:
        writes: list[str] = []

        async def count(request: Request) -> None:
            if request.method != "GET":
                writes.append(request.method)

        standing.transport.fault = count
        ahead = cluster.clock.now() + timedelta(hours=1)
        await elections.ping(cluster, IDENTITY, format_micro_time(ahead))
        await asyncio.sleep(60)
        spec = await spec_of(cluster)
        later = format_micro_time(ahead + timedelta(microseconds=1))
        assert (writes, spec.renew_time) == (["PUT"], later)


async def test_a_candidate_that_was_deleted_is_made_again(cluster: Cluster) -> None:
    async with Standing(cluster).running():
        await cluster.client.delete(LEASE_CANDIDATES, elections.NAMESPACE, IDENTITY)
        await asyncio.sleep(0.1)
        assert len(await elections.candidates(cluster)) == 1


async def refuse(_: Request) -> Response | None:
    return Response(500, {}, b"etcd has no leader")


async def test_a_conflict_does_not_end_a_candidacy(cluster: Cluster) -> None:
    async with Standing(cluster).running() as standing:
        refused: list[str | None] = []

        async def refuse_once(request: Request) -> Response | None:
            if request.method != "PUT" or refused:
                return None
            refused.append(standing.candidacy.problem())
            return Response(409, {}, b'{"reason": "Conflict"}')

        standing.transport.fault = refuse_once
        await elections.ping(cluster, IDENTITY)
        await asyncio.sleep(0.05)
        assert refused == [None]
        assert standing.candidacy.problem() is None
        await asyncio.sleep(0.1)
        spec = await spec_of(cluster)
        assert (spec.renew_time or "") > (spec.ping_time or "~")
        assert standing.log.getvalue() == ""


async def test_a_candidate_survives_an_outage(cluster: Cluster) -> None:
    """It says it once, and answers pings soon after the outage."""
    async with Standing(cluster).running() as standing:
        standing.transport.fault = refuse
        await asyncio.sleep(600)
        assert "etcd has no leader" in str(standing.candidacy.problem())
        standing.transport.fault = None
        await asyncio.sleep(31)
        await elections.ping(cluster, IDENTITY)
        pinged = elections.now_of(cluster)
        await asyncio.sleep(0.1)
        answered = (await spec_of(cluster)).renew_time
        assert answered is not None
        assert answered > pinged
        assert standing.candidacy.problem() is None
        assert standing.log.getvalue().count("\n") == 1


class Ended:
    """A watch that the server ends as soon as it has answered."""

    status = 200
    headers: Mapping[str, str] = {}

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        for chunk in list[bytes]():
            yield chunk

    async def close(self) -> None:
        pass


async def test_short_watches_are_opened_ever_more_rarely(cluster: Cluster) -> None:
    """A proxy may do so, for as long as it runs."""
    standing = Standing(cluster)
    opened_at: list[float] = []

    async def ended(request: Request) -> Stream:  # noqa: ARG001 - all alike
        opened_at.append(asyncio.get_running_loop().time())
        return Ended()

    standing.transport.stream = ended  # type: ignore[method-assign]
    async with standing.running():
        await asyncio.sleep(300)
    assert len(opened_at) < 20


async def test_a_server_without_candidates_is_named_in_one_line() -> None:
    async with Standing(Cluster(), leader=False).running() as standing:
        requests: list[str] = []

        async def count(request: Request) -> None:
            requests.append(request.method)

        standing.transport.fault = count
        await asyncio.sleep(3600)
        (line,) = standing.log.getvalue().splitlines()
        assert "--runtime-config=coordination.k8s.io/v1beta1=true" in line
        assert "the API server serves no lease candidates" in line
        assert "serves no lease candidates" in str(standing.candidacy.problem())
        assert len(requests) < 400


@pytest.mark.parametrize("leader", [True, False])
async def test_a_server_that_elects_no_candidate_is_named_in_one_line(
    cluster: Cluster, *, leader: bool
) -> None:
    """It serves candidates, but its own gate is off."""
    async with Standing(cluster, leader=leader).running() as standing:
        await asyncio.sleep(3600)
        lines = standing.log.getvalue().splitlines()
        assert len(lines) == (0 if leader else 1)
        if lines:
            assert "The API server elects no leader" in lines[0]
            assert "--feature-gates=CoordinatedLeaderElection=true" in lines[0]
