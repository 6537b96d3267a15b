"""Expectations, slow start, and what is read again after a takeover."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from controller_manager.api.apps.v1 import REPLICASETS, ReplicaSet
from controller_manager.api.core.v1 import PODS, Pod, PodMeta
from controller_manager.api.selectors import Selector, compile_selector
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from controller_manager.client.rest.errors import NotFound
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import LoopClock
from controller_manager.control.controller_ref_manager import AdoptionRefused, Claimer
from controller_manager.control.expectations import (
    TIMEOUT,
    Expectations,
    OwnerReads,
    State,
    StoredPods,
    Takeover,
    TakeoverLists,
)
from controller_manager.control.pod_control import slow_start
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.informers.store import Lister, Store
from tests.clusters import EPOCH, TOKEN, Cluster, RecordingTransport
from tests.controllers.batch.job.builders import JobUser, job_config
from tests.controllers.builders import replica_set_json, template
from tests.controllers.user import User, settle

pytestmark = pytest.mark.looptime


@pytest.fixture
def expectations() -> Expectations:
    return Expectations(LoopClock(EPOCH))


async def test_no_expectations_are_fulfilled_ones(expectations: Expectations) -> None:
    """It may write."""
    assert expectations.state("a") is State.FULFILLED


async def test_creations_are_fulfilled_by_number(expectations: Expectations) -> None:
    expectations.expect("a", 2)
    assert expectations.state("a") is State.PENDING
    expectations.creations_settled("a")
    assert expectations.state("a") is State.PENDING
    expectations.creations_settled("a")
    expectations.creations_settled("a")
    assert expectations.state("a") is State.FULFILLED


async def test_deletions_are_fulfilled_by_uid(expectations: Expectations) -> None:
    """A deletion that is seen twice counts once."""
    expectations.expect("a", deletions={"x", "y"})
    expectations.deletion_settled("a", "x")
    expectations.deletion_settled("a", "x")
    assert expectations.state("a") is State.PENDING
    expectations.deletion_settled("a", "y")
    assert expectations.state("a") is State.FULFILLED


async def test_a_sync_may_expect_more(expectations: Expectations) -> None:
    expectations.expect("a", 1, {"x"})
    expectations.expect("a", 2, {"y"})
    expectations.creations_settled("a", 3)
    expectations.deletion_settled("a", "x")
    assert expectations.state("a") is State.PENDING
    expectations.deletion_settled("a", "y")
    assert expectations.state("a") is State.FULFILLED
    expectations.outcome_unknown("a")
    expectations.expect("a")
    assert expectations.state("a") is State.UNKNOWN


async def test_old_expectations_have_no_outcome(expectations: Expectations) -> None:
    """Upstream would act on its cache now (kubernetes#129795)."""
    expectations.expect("a", 1)
    await asyncio.sleep(TIMEOUT)
    assert expectations.state("a") is State.PENDING
    await asyncio.sleep(1)
    assert expectations.state("a") is State.UNKNOWN
    expectations.forget("a")
    assert (expectations.state("a"), len(expectations)) == (State.FULFILLED, 0)


async def test_a_full_cache_ends_expectations(expectations: Expectations) -> None:
    expectations.expect("a", 2)
    expectations.cache_caught_up("a")
    assert expectations.state("a") is State.FULFILLED
    expectations.expect("b", deletions={"x"})
    expectations.cache_caught_up("b")
    assert expectations.state("b") is State.PENDING
    expectations.outcome_unknown("c")
    expectations.cache_caught_up("c")
    assert expectations.state("c") is State.UNKNOWN


async def test_a_lost_response_makes_the_outcome_unknown_immediately(
    expectations: Expectations,
) -> None:
    """Even once everything else was seen."""
    expectations.expect("a", 1)
    expectations.outcome_unknown("a")
    expectations.creations_settled("a")
    assert expectations.state("a") is State.UNKNOWN


@pytest.mark.parametrize(
    ("count", "batches"),
    [
        (0, []),
        (1, [1]),
        (6, [1, 2, 3]),
        (10, [1, 2, 4, 3]),
        (1000, [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 233]),
    ],
)
async def test_slow_start_doubles_its_batches(count: int, batches: list[int]) -> None:
    started: list[float] = []

    async def action() -> None:
        started.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)

    assert await slow_start(count, action) == (count, None)
    assert [started.count(instant) for instant in dict.fromkeys(started)] == batches


async def test_slow_start_stops_after_a_batch_with_a_failure() -> None:
    """An exhausted quota refuses a few requests, not all."""
    calls = 0

    async def action() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            msg = "quota"
            raise ValueError(msg)

    started, failure = await slow_start(500, action)
    assert (started, calls, str(failure)) == (3, 3, "quota")


# Takeover


async def test_objects_from_before_the_takeover_are_rechecked_once() -> None:
    clock = LoopClock(EPOCH)
    before = msgspec.structs.replace(
        Pod(), metadata=PodMeta(name="a", creation_timestamp="2025-12-31T23:00:00Z")
    )
    later = msgspec.structs.replace(
        Pod(), metadata=PodMeta(name="b", creation_timestamp="2026-01-01T00:01:00Z")
    )
    takeover = Takeover(clock, elected=True)
    assert not takeover.must_recheck(before)  # no process acts yet
    takeover.start_leading()
    assert takeover.must_recheck(before)
    assert not takeover.must_recheck(later)
    takeover.rechecked("a")
    assert not takeover.must_recheck(before)
    takeover.forget("a")
    assert takeover.must_recheck(before)
    alone = Takeover(clock, elected=False)
    alone.start_leading()
    assert not alone.must_recheck(before)


class Lists(RecordingTransport):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self.count = 0

    async def request(self, request: Request) -> Response:
        path = request.path
        is_list = request.method == "GET" and path.endswith("/pods")
        self.count += is_list and "/namespaces/" in path
        return await super().request(request)


@pytest.mark.parametrize("jobs", [20, 60])
async def test_a_namespaces_jobs_share_a_list(cluster: Cluster, jobs: int) -> None:
    user = JobUser(cluster)
    for number in range(jobs):
        await user.run(f"j{number}")
    transport = Lists(cluster)
    async with cluster.manager(job_config(), transport):
        await settle(30)
    made = Counter(
        (each.metadata.labels or {})["job-name"] for each in await user.pods()
    )
    assert made == {f"j{number}": 1 for number in range(jobs)}
    assert transport.count == 9


async def test_a_list_serves_a_minute_of_one_leadership(cluster: Cluster) -> None:
    """A later one may begin after writes of another leader."""
    user = User(cluster)
    lists = TakeoverLists(cluster.client)
    assert [await lists.shared("default") for _ in range(8)] == [None] * 8
    empty = await lists.shared("default")
    assert empty is not None
    assert (empty.uids, empty.newest) == (frozenset(), None)
    await user.create(PODS, {"metadata": {"name": "p"}, "spec": template()["spec"]})
    assert await lists.shared("default") is empty
    lists.start_leading()
    assert [await lists.shared("default") for _ in range(8)] == [None] * 8
    fresh = await lists.shared("default")
    (pod,) = await user.pods()
    assert fresh is not None
    assert (fresh.uids, fresh.newest) == (frozenset({pod.metadata.uid}), pod)
    await asyncio.sleep(61)
    assert await lists.shared("default") is None
    await asyncio.sleep(61)
    assert (lists._asked, lists._lists, lists._locks) == ({}, {}, {})


def test_a_pod_that_has_changed_since_the_list_is_not_gone() -> None:
    """Only a pod that is as old as the list, and that it does not have."""
    stored = StoredPods(frozenset({"a"}), 10)
    found = [
        stored.lacks(Pod(metadata=PodMeta(uid=uid, resource_version=version)))
        for uid, version in (("a", "5"), ("b", "5"), ("b", "10"), ("b", "11"))
    ]
    assert found == [False, True, True, False]


SELECTOR = Selector(exact=(("app", "rs"),))


class Versions:
    """Records the versions that keys must wait for."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, str, str]] = []

    def record(self, key: str, resource: object, obj: ReplicaSet) -> None:
        plural = getattr(resource, "plural", "")
        self.recorded.append((key, plural, obj.metadata.resource_version))


@pytest.fixture(name="user")
def make_user(cluster: Cluster) -> User:
    return User(cluster)


@pytest.fixture(name="versions")
def make_versions() -> Versions:
    return Versions()


@pytest.fixture(name="store")
def make_store() -> Store[ReplicaSet]:
    return Store()


@pytest.fixture(name="reads")
def make_reads(
    cluster: Cluster, store: Store[ReplicaSet], versions: Versions
) -> OwnerReads[ReplicaSet]:
    return OwnerReads(
        cluster.client,
        REPLICASETS,
        Lister(store, REPLICASETS.kind),
        versions,  # type: ignore[arg-type]
    )


async def test_a_key_waits_for_its_owner_and_for_the_pods_that_it_selects(
    user: User, reads: OwnerReads[ReplicaSet], versions: Versions
) -> None:
    """Other pods of the namespace do not count."""
    owner: ReplicaSet = await user.create(REPLICASETS, replica_set_json())
    for name, app in (("mine", "rs"), ("other", "other")):
        body = {"metadata": {"name": name, "labels": {"app": app}}}
        await user.create(PODS, {**body, "spec": template()["spec"]})
    mine, _ = await user.pods()
    await reads.wait_for_all_caches(owner, SELECTOR)
    assert versions.recorded == [
        ("default/rs", "replicasets", owner.metadata.resource_version),
        ("default/rs", "pods", mine.metadata.resource_version),
    ]


async def test_an_owner_that_is_gone_is_known_until_the_cache_shows_it(
    user: User, reads: OwnerReads[ReplicaSet], store: Store[ReplicaSet]
) -> None:
    """A newer version in the cache means that it exists after all."""
    owner: ReplicaSet = await user.create(REPLICASETS, replica_set_json())
    store.put(owner)
    await reads.wait_for_cache(owner)
    assert not reads.is_known_gone(owner)
    await user.client.delete(REPLICASETS, "default", "rs")
    await reads.wait_for_cache(owner)
    assert reads.is_known_gone(owner)
    with pytest.raises(NotFound):
        await reads.wait_for_all_caches(owner, SELECTOR)
    reads.forget(owner)
    assert not reads.is_known_gone(owner)


async def test_a_namesake_of_an_owner_is_another_owner(
    user: User,
    reads: OwnerReads[ReplicaSet],
    store: Store[ReplicaSet],
    versions: Versions,
) -> None:
    """The key waits until the cache shows it."""
    owner: ReplicaSet = await user.create(REPLICASETS, replica_set_json())
    store.put(owner)
    await user.client.delete(REPLICASETS, "default", "rs")
    again: ReplicaSet = await user.create(REPLICASETS, replica_set_json())
    await reads.wait_for_cache(owner)
    assert reads.is_known_gone(owner)
    version = again.metadata.resource_version
    assert versions.recorded == [("default/rs", "replicasets", version)]


FOREGROUND = DeleteOptions(propagation_policy=PropagationPolicy.FOREGROUND)
BACKGROUND = DeleteOptions(propagation_policy=PropagationPolicy.BACKGROUND)


@pytest.mark.parametrize(
    ("options", "is_replaced", "refusal"),
    [
        (BACKGROUND, False, pytest.raises(NotFound, match='"rs" not found')),
        (BACKGROUND, True, pytest.raises(AdoptionRefused, match="is gone: got uid")),
        (FOREGROUND, False, pytest.raises(AdoptionRefused, match="just been deleted")),
    ],
    ids=["gone", "replaced", "being deleted"],
)
async def test_an_owner_that_is_gone_but_cached_adopts_nothing(
    cluster: Cluster, options: DeleteOptions, is_replaced: bool, refusal: Any
) -> None:
    """The garbage collector would delete the adopted pods."""
    user = User(cluster)
    for name in ("a", "b"):
        metadata = {"name": name, "labels": {"app": "rs"}}
        await user.create(PODS, {**template(), "metadata": metadata})
    await user.create(REPLICASETS, replica_set_json())
    cached = await user.client.get(REPLICASETS, "default", "rs")
    pods = await user.pods()
    await user.client.delete(REPLICASETS, "default", "rs", options)
    if is_replaced:
        await user.create(REPLICASETS, replica_set_json())
    claimer = Claimer(user.client, REPLICASETS, PODS)
    with refusal:
        await claimer.claim(cached, compile_selector(cached.spec.selector), pods)
    assert await user.pods() == pods
