"""In a coordinated election a process leads only while the API server says so."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from controller_manager.api.coordination.v1 import LEASES, LeaseSpec
from controller_manager.client.leadership.coordinated_election import CoordinatedElector
from controller_manager.client.leadership.leader_election import (
    LeadershipLost,
    LeadershipYielded,
)
from controller_manager.client.rest.transport import Request, Response
from tests.client.leadership import elections
from tests.client.leadership.elections import NAME, Candidate
from tests.clusters import Cluster

pytestmark = pytest.mark.looptime


@pytest_asyncio.fixture
async def cluster() -> Cluster:
    return Cluster(features=elections.COORDINATED)


def candidate_of(cluster: Cluster, *, watches: bool = True) -> Candidate:
    return Candidate(cluster, "a", watches=watches, kind=CoordinatedElector)


@asynccontextmanager
async def leader_of(
    cluster: Cluster, *, watches: bool
) -> AsyncGenerator[tuple[Candidate, asyncio.Task[None]], None]:
    async with candidate_of(cluster, watches=watches).running() as candidate:
        await elections.elect(cluster, "a")
        await candidate.elector.acquire()
        yield candidate, candidate.renewing()


def time() -> float:
    return asyncio.get_running_loop().time()


async def test_a_candidate_makes_no_lease(cluster: Cluster) -> None:
    """It waits until the API server makes one."""
    async with candidate_of(cluster).running() as candidate:
        acquiring = candidate.acquiring()
        await asyncio.sleep(60)
        assert (acquiring.done(), await elections.lease_of(cluster)) == (False, None)


@pytest.mark.parametrize("holder", ["b", ""])
async def test_a_candidate_takes_no_free_lease(cluster: Cluster, holder: str) -> None:
    await elections.elect(cluster, holder)
    stored = await elections.lease_of(cluster)
    async with candidate_of(cluster).running() as candidate:
        acquiring = candidate.acquiring()
        await asyncio.sleep(60)
        assert (acquiring.done(), await elections.lease_of(cluster)) == (False, stored)


async def test_a_candidate_that_is_elected_leads_at_once(cluster: Cluster) -> None:
    async with candidate_of(cluster).running() as candidate:
        acquiring = candidate.acquiring()
        await asyncio.sleep(30)
        await elections.elect(cluster, "a")
        elected_at = time()
        await acquiring
        assert time() - elected_at < 0.1
        assert await elections.lease_of(cluster) == LeaseSpec(
            holder_identity="a",
            lease_duration_seconds=15,
            renew_time=elections.now_of(cluster),
            lease_transitions=0,
            strategy=elections.STRATEGY,
        )
        assert candidate.elector.seconds_left() > 0
        assert candidate.metrics.status == [False, True]


async def test_a_candidate_that_stops_releases_the_lease(cluster: Cluster) -> None:
    """Else no process leads until the lease expires."""
    async with candidate_of(cluster).running() as candidate:
        acquiring = candidate.acquiring()
        await asyncio.sleep(30)
        acquiring.cancel()
        await asyncio.gather(acquiring, return_exceptions=True)
        await elections.elect(cluster, "a")
        await asyncio.sleep(0.1)
        await candidate.elector.release()
        released = await elections.lease_of(cluster)
        assert released is not None
        assert not released.holder_identity


async def test_a_candidate_elected_too_late_does_not_lead(cluster: Cluster) -> None:
    """The lease has expired before a write of the candidate could reach it."""

    async def refuse_writes(request: Request) -> Response | None:
        return Response(500, {}, b"") if request.method == "PUT" else None

    async with candidate_of(cluster).running() as candidate:
        candidate.transport.fault = refuse_writes
        acquiring = candidate.acquiring()
        await elections.elect(cluster, "a")
        elected = await elections.lease_of(cluster)
        await asyncio.sleep(elections.SECONDS + 1)
        candidate.transport.fault = None
        await asyncio.sleep(60)
        assert (acquiring.done(), await elections.lease_of(cluster)) == (False, elected)


async def test_a_leader_renews_its_lease(cluster: Cluster) -> None:
    async with candidate_of(cluster).running() as candidate:
        await elections.elect(cluster, "a")
        await candidate.elector.acquire()
        candidate.renewing()
        await asyncio.sleep(60.5)
        assert candidate.elector.seconds_left() > 7
        assert candidate.metrics.slow == 0


@pytest.mark.parametrize("watches", [True, False])
async def test_a_leader_gives_up_the_lease_for_the_preferred_holder(
    cluster: Cluster, *, watches: bool
) -> None:
    """At once if it watches the lease, else at its next renewal."""
    async with leader_of(cluster, watches=watches) as (candidate, holding):
        await asyncio.sleep(10.5)
        await elections.prefer(cluster, "b")
        preferred_at = time()
        with pytest.raises(LeadershipYielded, match="prefers b for the lease kube-sys"):
            await holding
        assert time() - preferred_at < (0.1 if watches else 2)
        assert candidate.elector.seconds_left() == 0
        held = await elections.lease_of(cluster)
        assert held is not None
        assert (held.holder_identity, held.preferred_holder) == ("a", "b")
        # The work of the leader ends first; then the lease is free.
        await candidate.elector.release()
        now = elections.now_of(cluster)
        assert await elections.lease_of(cluster) == LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=now,
            renew_time=now,
            lease_transitions=0,
            strategy=elections.STRATEGY,
        )


async def test_a_candidate_leads_for_no_other_holder(cluster: Cluster) -> None:
    await elections.elect(cluster, "a")
    await elections.prefer(cluster, "b")
    stored = await elections.lease_of(cluster)
    async with candidate_of(cluster).running() as candidate:
        acquiring = candidate.acquiring()
        await asyncio.sleep(60)
        assert (acquiring.done(), await elections.lease_of(cluster)) == (False, stored)


@pytest.mark.parametrize("watches", [True, False])
async def test_a_deleted_lease_ends_leading(cluster: Cluster, *, watches: bool) -> None:
    """It does not make the lease again: the API server may elect another candidate."""
    async with leader_of(cluster, watches=watches) as (candidate, holding):
        await asyncio.sleep(0.5)
        await cluster.client.delete(LEASES, elections.NAMESPACE, NAME)
        deleted_at = time()
        with pytest.raises(LeadershipLost, match="held by nobody"):
            await holding
        assert time() - deleted_at < (0.1 if watches else 2)
        await candidate.elector.release()
        assert await elections.lease_of(cluster) is None


async def test_a_leader_knows_who_led_before(cluster: Cluster) -> None:
    """So a take-over from upstream's manager can be told."""
    await elections.elect(cluster, "b")
    async with candidate_of(cluster).running() as candidate:
        acquiring = candidate.acquiring()
        await asyncio.sleep(10)
        await elections.elect(cluster, "a")
        await acquiring
        assert candidate.elector.previous_holder == "b"
