"""Exactly one of several managers leads, also when requests fail."""

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controller_manager.api.coordination.v1 import LEASES, Lease, LeaseSpec
from controller_manager.api.core.v1 import EVENTS, PODS, Pod
from controller_manager.api.meta import ObjectMeta
from controller_manager.client.leadership.leader_election import LeadershipLost
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import LoopClock
from controller_manager.options.config import LeaderElectionConfig
from tests.client.leadership.elections import (
    CONFIG,
    NAME,
    NAMESPACE,
    Candidate,
    Fault,
    now_of,
)
from tests.clusters import EPOCH, Cluster

pytestmark = pytest.mark.looptime


async def lease_of(cluster: Cluster) -> LeaseSpec:
    return (await cluster.client.get(LEASES, NAMESPACE, NAME)).spec


def time() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def leading(cluster: Cluster) -> AsyncGenerator[Candidate, None]:
    async with Candidate(cluster, "a").running() as candidate:
        await candidate.elector.acquire()
        yield candidate


async def test_the_first_candidate_leads(cluster: Cluster) -> None:
    async with leading(cluster) as candidate:
        now = now_of(cluster)
        assert await lease_of(cluster) == LeaseSpec(
            holder_identity="a",
            lease_duration_seconds=15,
            acquire_time=now,
            renew_time=now,
            lease_transitions=0,
        )
        assert candidate.elector.seconds_left() > 0
        assert candidate.metrics.status == [False, True]
        await asyncio.sleep(0.1)
    page = await cluster.client.list_page(EVENTS, NAMESPACE)
    (event,) = page.items
    assert (event.type, event.reason, event.message, event.source.component) == (
        "Normal",
        "LeaderElection",
        "a became leader",
        NAME,
    )
    involved = event.involved_object
    assert (involved.kind, involved.api_version, involved.name) == (
        "Lease",
        "coordination.k8s.io/v1",
        NAME,
    )


async def events_of(cluster: Cluster) -> list[str]:
    await asyncio.sleep(0.1)
    page = await cluster.client.list_page(EVENTS, NAMESPACE)
    return [event.message for event in page.items]


async def test_a_leader_that_stops_says_so(cluster: Cluster) -> None:
    async with leading(cluster) as first:
        await first.elector.release()
        assert await events_of(cluster) == ["a became leader", "a stopped leading"]
        await first.elector.release()
    async with Candidate(cluster, "b").running() as second:
        await second.elector.acquire()
        second.transport.fault = hang_leases
        with pytest.raises(LeadershipLost):
            await asyncio.wait_for(second.elector.renew(), 60)
        assert (await events_of(cluster))[2:] == [
            "b became leader",
            "b stopped leading",
        ]


async def hang_leases(request: Request) -> Response | None:
    if "/leases" in request.path:
        await asyncio.sleep(10_000)
    return None


async def test_a_leader_renews_and_keeps_the_other_fields(cluster: Cluster) -> None:
    async with leading(cluster) as candidate:
        acquired = (await lease_of(cluster)).acquire_time
        labels = {"metadata": {"labels": {"mine": "yes"}}}
        await cluster.client.patch(LEASES, NAMESPACE, NAME, labels)
        candidate.renewing()
        await asyncio.sleep(61)
        stored = await cluster.client.get(LEASES, NAMESPACE, NAME)
        assert (stored.spec.acquire_time, stored.spec.lease_transitions) == (
            acquired,
            0,
        )
        assert stored.metadata.labels == {"mine": "yes"}
        age = cluster.clock.now() - EPOCH
        assert age - timedelta(seconds=2.1) < timedelta(
            seconds=float(stored.spec.renew_time[17:26]) + 60  # type: ignore[index]
        )
        assert candidate.metrics.slow == 0


async def test_a_standby_leads_when_the_lease_has_ended(cluster: Cluster) -> None:
    """Fifteen seconds after the last observed change, and not before."""
    async with leading(cluster) as first, Candidate(cluster, "b").running() as second:
        started = time()
        await second.elector.acquire()
        assert 15 <= time() - started < 15.1
        spec = await lease_of(cluster)
        assert (spec.holder_identity, spec.lease_transitions) == ("b", 1)
        assert first.elector.seconds_left() == 0


async def test_a_lease_that_is_released_is_taken_at_once(cluster: Cluster) -> None:
    """The standby watches the lease, so it does not wait for the retry period."""
    async with leading(cluster) as first, Candidate(cluster, "b").running() as second:
        waiting = second.acquiring()
        await asyncio.sleep(5)
        assert not waiting.done()
        released = time()
        acquired = (await lease_of(cluster)).lease_transitions
        await first.elector.release()
        await waiting
        assert time() - released < 0.1
        assert (await lease_of(cluster)).lease_transitions == (acquired or 0) + 1
        assert first.metrics.status == [False, True, False]


async def test_a_released_lease_has_no_holder(cluster: Cluster) -> None:
    async with leading(cluster) as candidate:
        await asyncio.sleep(1)
        await candidate.elector.release()
        now = now_of(cluster)
        spec = await lease_of(cluster)
        assert not spec.holder_identity
        assert msgspec.structs.replace(spec, holder_identity="") == LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=now,
            renew_time=now,
            lease_transitions=0,
        )


async def no_answer() -> Response:
    await asyncio.sleep(10_000)
    raise AssertionError


async def answer_of_a_proxy() -> Response:
    return Response(504, {}, b"gateway timeout")


@pytest.mark.parametrize("answer", [no_answer, answer_of_a_proxy])
async def test_a_lease_is_released_if_its_acquisition_may_have_failed(
    cluster: Cluster, answer: Callable[[], Awaitable[Response]]
) -> None:
    """The write was applied, but the API server's answer never arrived."""

    async def applied(request: Request) -> Response | None:
        if request.method != "POST" or "/leases" not in request.path:
            return None
        await cluster.transport.request(request)
        return await answer()

    async with Candidate(cluster, "a", watches=False).running() as candidate:
        candidate.transport.fault = applied
        acquiring = candidate.acquiring()
        await asyncio.sleep(1)
        acquiring.cancel()
        await asyncio.gather(acquiring, return_exceptions=True)
        assert (await lease_of(cluster)).holder_identity == "a"
        await candidate.elector.release()
        assert not (await lease_of(cluster)).holder_identity


async def test_a_lease_that_changes_meanwhile_is_released(cluster: Cluster) -> None:
    """A renewal in progress is stored between the read and the write."""
    async with leading(cluster) as candidate:
        edited = False

        async def edit(request: Request) -> Response | None:
            nonlocal edited
            if request.method == "PUT" and not edited:
                edited = True
                labels = {"metadata": {"labels": {"mine": "yes"}}}
                await cluster.client.patch(LEASES, NAMESPACE, NAME, labels)
            return None

        candidate.transport.fault = edit
        await candidate.elector.release()
        assert not (await lease_of(cluster)).holder_identity


async def test_conflicts_of_a_release_are_repeated(cluster: Cluster) -> None:
    async with leading(cluster) as candidate:
        sent: list[float] = []

        async def refuse(request: Request) -> Response | None:
            if request.method != "PUT":
                return None
            sent.append(time())
            return Response(409, {}, b'{"reason": "Conflict"}')

        candidate.transport.fault = refuse
        started = time()
        await candidate.elector.release()
        assert time() - started == pytest.approx(CONFIG.renew_deadline)
        assert [round(each - started, 1) for each in sent] == [
            *(0, 0.1, 0.3, 0.7, 1.5),
            *(3.1, 5.1, 7.1, 9.1),
        ]


async def test_a_lease_with_a_lower_version_is_used(cluster: Cluster) -> None:
    """The store was restored from a backup: the answers of the server are correct."""
    async with Candidate(cluster, "b", watches=False).running() as standby:
        lease = Lease(
            metadata=ObjectMeta(name=NAME, namespace=NAMESPACE),
            spec=LeaseSpec(holder_identity="a", lease_duration_seconds=15),
        )
        stored = await cluster.client.create(LEASES, lease)
        newer = msgspec.structs.replace(
            stored,
            metadata=msgspec.structs.replace(
                stored.metadata, resource_version="999999"
            ),
        )
        standby.elector._observe(newer)
        await standby.elector.acquire()
        assert standby.elector.seconds_left() > 0


async def test_without_a_watch_a_standby_polls(cluster: Cluster) -> None:
    async with (
        Candidate(cluster, "a").running() as first,
        Candidate(cluster, "b", watches=False).running() as second,
    ):
        await first.elector.acquire()
        waiting = second.acquiring()
        await asyncio.sleep(5)
        await first.elector.release()
        released = time()
        await waiting
        assert time() - released < 4.4


@pytest.mark.parametrize(
    "config",
    [
        LeaderElectionConfig(resource_name=""),
        LeaderElectionConfig(resource_namespace=""),
    ],
)
async def test_a_lease_without_a_name_is_never_taken(
    cluster: Cluster, config: LeaderElectionConfig
) -> None:
    """No request is sent, because it would address all leases of a namespace."""
    candidate = Candidate(cluster, "a", config=config)
    sent: list[str] = []

    async def record(request: Request) -> None:
        sent.append(request.path)

    candidate.transport.fault = record
    async with candidate.running():
        acquiring = candidate.acquiring()
        await asyncio.sleep(60)
        assert (acquiring.done(), candidate.elector.seconds_left() > 0, sent) == (
            False,
            False,
            [],
        )
        acquiring.cancel()
        await candidate.elector.release()


async def hang(_: Request) -> Response | None:
    await asyncio.sleep(10_000)
    return None


async def reset(request: Request) -> Response | None:
    raise TransportError(request.path)


async def garbage(_: Request) -> Response | None:
    return Response(200, {}, b"<html>")


async def refuse(_: Request) -> Response | None:
    return Response(500, {}, b"etcd has no leader")


@pytest.mark.parametrize("fault", [hang, reset, garbage, refuse])
async def test_a_leader_that_cannot_renew_stops_before_another_leads(
    cluster: Cluster, fault: Fault
) -> None:
    async with leading(cluster) as first, Candidate(cluster, "b").running() as second:
        holding = first.renewing()
        waiting = second.acquiring()
        await asyncio.sleep(30)
        assert first.elector.seconds_left() > 0
        first.transport.fault = fault
        broken = time()
        with pytest.raises(LeadershipLost, match="was not renewed within 10 s"):
            await holding
        stopped = time()
        assert stopped - broken <= 10
        assert first.elector.seconds_left() == 0
        assert not waiting.done()
        await waiting
        # The last renewal was at most 2 s before the fault.
        assert time() - broken >= 13
        assert time() > stopped


async def defect(_: Request) -> Response | None:
    msg = "no such code"
    raise LookupError(msg)


async def test_a_defect_in_a_renewal_does_not_end_the_leader(cluster: Cluster) -> None:
    async with Candidate(cluster, "a").running() as candidate:
        candidate.transport.fault = defect
        await asyncio.sleep(1)  # the watch has failed
        candidate.transport.fault = None
        await candidate.elector.acquire()
        renewing = candidate.renewing()
        candidate.transport.fault = defect
        await asyncio.sleep(8)
        candidate.transport.fault = None
        await asyncio.sleep(100)
        assert candidate.elector.seconds_left() > 0
        assert candidate.watching is not None
        assert not renewing.done()
        assert not candidate.watching.done()


async def test_a_defect_in_a_release_prevents_no_shutdown(cluster: Cluster) -> None:
    async with leading(cluster) as candidate:
        candidate.transport.fault = defect
        await candidate.elector.release()
        assert candidate.elector.seconds_left() == 0
    assert (await lease_of(cluster)).holder_identity == "a"


@pytest.mark.parametrize(("watches", "seconds"), [(True, 0.1), (False, 1.6)])
async def test_a_stolen_lease_is_noticed(
    cluster: Cluster, watches: bool, seconds: float
) -> None:
    async with Candidate(cluster, "a", watches=watches).running() as candidate:
        await candidate.elector.acquire()
        holding = candidate.renewing()
        await asyncio.sleep(0.5)
        thief = {"spec": {"holderIdentity": "thief"}}
        await cluster.client.patch(LEASES, NAMESPACE, NAME, thief)
        stolen = time()
        with pytest.raises(LeadershipLost, match="is held by thief"):
            await holding
        assert time() - stolen < seconds
        assert (await lease_of(cluster)).holder_identity == "thief"


async def test_a_lease_that_was_deleted_is_made_again(cluster: Cluster) -> None:
    async with leading(cluster) as candidate:
        holding = candidate.renewing()
        await cluster.client.delete(LEASES, NAMESPACE, NAME)
        await asyncio.sleep(5)
        assert (await lease_of(cluster)).holder_identity == "a"
        assert not holding.done()


@pytest.mark.parametrize("hours", [-3, 3])
async def test_wall_clocks_that_differ_do_no_harm(cluster: Cluster, hours: int) -> None:
    """The time of the observed change is used, not the time in the lease."""
    skewed = LoopClock(EPOCH + timedelta(hours=hours))
    async with (
        Candidate(cluster, "a", clock=skewed).running() as first,
        Candidate(cluster, "b").running() as second,
    ):
        await first.elector.acquire()
        holding = first.renewing()
        waiting = second.acquiring()
        await asyncio.sleep(300)
        assert first.elector.seconds_left() > 0
        assert not waiting.done()
        holding.cancel()
        stopped = time()
        await waiting
        assert 13 <= time() - stopped <= 15.1


@pytest.mark.slow
async def test_two_candidates_never_lead_at_once(cluster: Cluster) -> None:
    seed = 7
    rng = random.Random(seed)
    leaders: list[set[str]] = []

    async def compete(candidate: Candidate) -> None:
        while True:
            await candidate.elector.acquire()
            try:
                await asyncio.wait_for(candidate.elector.renew(), 60)
            except LeadershipLost:
                await asyncio.sleep(1)

    async def disturb(candidate: Candidate) -> None:
        while True:
            await asyncio.sleep(rng.uniform(1, 60))
            candidate.transport.fault = rng.choice([hang, reset, garbage, refuse])
            await asyncio.sleep(rng.uniform(1, 30))
            candidate.transport.fault = None

    async with (
        Candidate(cluster, "a").running() as first,
        Candidate(cluster, "b").running() as second,
    ):
        both = (first, second)
        tasks = [asyncio.create_task(compete(each)) for each in both]
        tasks += [asyncio.create_task(disturb(each)) for each in both]
        for _ in range(12_000):
            await asyncio.sleep(0.1)
            leaders.append(
                {c.elector.identity for c in both if c.elector.seconds_left() > 0}
            )
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert max(len(each) for each in leaders) == 1, f"seed {seed}"
    assert {"a"} in leaders
    assert {"b"} in leaders


async def test_a_leader_that_hangs_is_unhealthy(cluster: Cluster) -> None:
    """A leader that neither renews nor stops; a standby is always healthy."""
    async with Candidate(cluster, "a").running() as candidate:
        assert candidate.elector.health_problem() is None
        await candidate.elector.acquire()
        await asyncio.sleep(35)
        assert candidate.elector.health_problem() is None
        await asyncio.sleep(1)
        assert candidate.elector.health_problem() == (
            "failed election to renew leadership on lease kube-controller-manager"
        )


async def test_a_leader_that_was_suspended_leads_no_more(cluster: Cluster) -> None:
    """Its lease has expired, even though the event loop's time has not advanced."""

    class Suspended(LoopClock):
        asleep = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.asleep

    clock = Suspended(EPOCH)
    async with Candidate(cluster, "a", clock=clock).running() as candidate:
        await candidate.elector.acquire()
        assert candidate.elector.seconds_left() == pytest.approx(10, abs=0.1)
        clock.asleep = 3600.0
        assert candidate.elector.seconds_left() == 0
        with pytest.raises(LeadershipLost):
            await asyncio.wait_for(candidate.elector.renew(), 60)


async def test_a_leader_that_hangs_lets_its_lease_expire(cluster: Cluster) -> None:
    """It does no work; the standby takes the lease when it has ended."""
    async with leading(cluster) as first, Candidate(cluster, "b").running() as second:
        renewing = first.renewing()
        await asyncio.sleep(60)
        first.hangs = True
        taking = second.acquiring()
        with pytest.raises(LeadershipLost, match="because the controllers hang"):
            await renewing
        assert not taking.done()
        await asyncio.sleep(10)
        assert taking.done()
        assert second.elector.seconds_left() > 0


async def test_a_short_hang_costs_no_lease(cluster: Cluster) -> None:
    async with leading(cluster) as candidate:
        candidate.renewing()
        await asyncio.sleep(60)
        candidate.hangs = True
        await asyncio.sleep(6)
        candidate.hangs = False
        await asyncio.sleep(60)
        assert candidate.elector.seconds_left() > 0


async def test_a_standby_that_hangs_takes_no_lease(cluster: Cluster) -> None:
    """It takes the lease as soon as they work again."""
    async with Candidate(cluster, "a").running() as candidate:
        candidate.hangs = True
        acquiring = candidate.acquiring()
        await asyncio.sleep(60)
        assert not acquiring.done()
        candidate.hangs = False
        await asyncio.sleep(5)
        assert candidate.elector.seconds_left() > 0


async def test_the_published_time_ends_with_the_leadership(cluster: Cluster) -> None:
    """Another thread reads only this number before each write."""
    async with Candidate(cluster, "a").running() as candidate:
        elector = candidate.elector
        before = elector.may_write_until
        await elector.acquire()
        leading = elector.may_write_until - candidate.clock.monotonic()
        await elector.release()
        after = elector.may_write_until
    assert leading == pytest.approx(10, abs=0.1)
    assert (before, after) == (-math.inf, -math.inf)


def test_a_lease_is_whole_when_it_is_written_back() -> None:
    """Fields that only a coordinated election uses are kept."""
    wire: dict[str, Any] = {
        "metadata": {"name": NAME},
        "spec": {"strategy": "OldestEmulationVersion", "preferredHolder": "b"},
    }
    lease = msgspec.json.decode(msgspec.json.encode(wire), type=Lease)
    assert msgspec.to_builtins(lease) == wire
    assert PODS.type is Pod
