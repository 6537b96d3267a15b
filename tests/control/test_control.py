"""The shared actors."""

import asyncio
import random
from collections.abc import Sequence

import msgspec
import pytest

from controller_manager.api.apps.v1 import ReplicaSet
from controller_manager.api.core.v1 import PODS, Pod, PodMeta
from controller_manager.api.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    compile_selector,
)
from controller_manager.clock import LoopClock
from controller_manager.control.candidates import (
    index_orphans,
    index_selectors,
    orphans_matching,
    owners_selecting,
)
from controller_manager.control.consistency import ConsistencyStore
from controller_manager.control.expectations import TIMEOUT, Expectations, State
from controller_manager.control.slow_start import slow_start
from controller_manager.control.takeover import Takeover
from controller_manager.informers.informer import SharedInformer
from controller_manager.informers.store import Store
from controller_manager.observability.logs import silent_logger
from tests.clusters import EPOCH, Cluster, informer_metrics

pytestmark = pytest.mark.looptime


@pytest.fixture
def expectations() -> Expectations:
    return Expectations(LoopClock(EPOCH))


async def test_nothing_expected_is_fulfilled(expectations: Expectations) -> None:
    """A key may act that has not asked for anything."""
    assert expectations.state("a") is State.FULFILLED


async def test_creations_are_fulfilled_by_number(expectations: Expectations) -> None:
    """One by one, surplus sightings do no harm."""
    expectations.expect_creations("a", 2)
    assert expectations.state("a") is State.PENDING
    expectations.creations_settled("a")
    assert expectations.state("a") is State.PENDING
    expectations.creations_settled("a")
    expectations.creations_settled("a")
    assert expectations.state("a") is State.FULFILLED


async def test_deletions_are_fulfilled_by_uid(expectations: Expectations) -> None:
    """Seeing one twice does not stand for another."""
    expectations.expect_deletions("a", {"x", "y"})
    expectations.deletion_settled("a", "x")
    expectations.deletion_settled("a", "x")
    assert expectations.state("a") is State.PENDING
    expectations.deletion_settled("a", "y")
    assert expectations.state("a") is State.FULFILLED


async def test_an_old_expectation_is_doubtful_not_void(
    expectations: Expectations,
) -> None:
    """Upstream would act on its cache now (kubernetes#129795)."""
    expectations.expect_creations("a", 1)
    await asyncio.sleep(TIMEOUT)
    assert expectations.state("a") is State.PENDING
    await asyncio.sleep(1)
    assert expectations.state("a") is State.DOUBTFUL
    expectations.forget("a")
    assert (expectations.state("a"), len(expectations)) == (State.FULFILLED, 0)


async def test_what_a_complete_cache_does_not_show_is_gone_again(
    expectations: Expectations,
) -> None:
    """Deletions are always seen, and a lost answer stays doubtful."""
    expectations.expect_creations("a", 2)
    expectations.cache_caught_up("a")
    assert expectations.state("a") is State.FULFILLED
    expectations.expect_deletions("b", {"x"})
    expectations.cache_caught_up("b")
    assert expectations.state("b") is State.PENDING
    expectations.doubt("c")
    expectations.cache_caught_up("c")
    assert expectations.state("c") is State.DOUBTFUL


async def test_a_lost_answer_is_doubtful_at_once(expectations: Expectations) -> None:
    """Even once everything else was seen."""
    expectations.expect_creations("a", 1)
    expectations.doubt("a")
    expectations.creations_settled("a")
    assert expectations.state("a") is State.DOUBTFUL


@pytest.mark.parametrize(
    ("count", "batches"), [(0, []), (1, [1]), (6, [1, 2, 3]), (10, [1, 2, 4, 3])]
)
async def test_slow_start_doubles_its_batches(count: int, batches: list[int]) -> None:
    """1, 2, 4 and what is left; a batch runs at the same time."""
    started: list[float] = []

    async def action() -> None:
        started.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)

    assert await slow_start(count, action) == (count, None)
    assert [started.count(instant) for instant in dict.fromkeys(started)] == batches


async def test_slow_start_stops_after_a_batch_with_a_failure() -> None:
    """A quota that has run out is met by a few requests, not by all."""
    calls = 0

    async def action() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            msg = "quota"
            raise ValueError(msg)

    started, failure = await slow_start(500, action)
    assert (started, calls, str(failure)) == (3, 3, "quota")


async def test_a_write_must_be_seen_before_the_key_acts_again() -> None:
    """By the informer that shows it; other keys are free."""
    cluster = Cluster()
    informer = SharedInformer(
        cluster.client,
        PODS,
        resync_period=0,
        rng=cluster.rng,
        logger=silent_logger(),
        metrics=informer_metrics(),
    )
    written = ConsistencyStore()
    informer.advanced("9")
    written.wrote("a", informer, "10")
    written.wrote("a", informer, "7")
    assert written.behind("a") is informer
    assert written.behind("b") is None
    informer.advanced("10")
    assert written.behind("a") is None
    assert len(written) == 0
    written.wrote("a", informer, "11")
    written.forget("a")
    assert written.behind("a") is None


# Candidates


def orphan(name: str, **labels: str) -> Pod:
    metadata = {"name": name, "namespace": "n", "labels": labels}
    return msgspec.convert({"metadata": metadata}, Pod)


def owner(name: str, selector: LabelSelector | None) -> ReplicaSet:
    empty = msgspec.json.decode(b"{}", type=ReplicaSet)
    metadata = msgspec.structs.replace(empty.metadata, name=name, namespace="n")
    spec = msgspec.structs.replace(empty.spec, selector=selector)
    return msgspec.structs.replace(empty, metadata=metadata, spec=spec)


def found(objects: Sequence[Pod | ReplicaSet]) -> list[str]:
    return sorted(each.metadata.name for each in objects)


async def test_candidates_are_those_that_a_scan_would_find() -> None:
    """For random labels and selectors of every kind."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)

    def labels() -> dict[str, str]:
        return {k: rng.choice("xy") for k in "abc" if rng.random() < 0.6}

    def selector() -> LabelSelector:
        expressions = tuple(
            LabelSelectorRequirement(key=key, operator="Exists")
            for key in "abc"
            if rng.random() < 0.2
        )
        return LabelSelector(match_labels=labels(), match_expressions=expressions)

    pods: Store[Pod] = Store()
    owners: Store[ReplicaSet] = Store()
    index_orphans(pods)
    index_selectors(owners)
    for number in range(60):
        pods.put(orphan(f"p{number}", **labels()))
        owners.put(owner(f"o{number}", selector()))
    for each in owners:
        compiled = compile_selector(each.spec.selector)
        expected = [p for p in pods if compiled.matches(p.metadata.labels or {})]
        matching: list[Pod] = orphans_matching(pods, "n", compiled)
        assert found(matching) == found(expected), seed
    for pod in pods:
        labelled = pod.metadata.labels or {}
        selecting = [
            each
            for each in owners
            if labelled
            and not compile_selector(each.spec.selector).is_empty
            and compile_selector(each.spec.selector).matches(labelled)
        ]
        assert found(owners_selecting(owners, pod)) == found(list(selecting)), seed


async def test_an_owner_without_a_usable_selector_selects_nothing() -> None:
    """Absent, empty and invalid ones alike."""
    owners: Store[ReplicaSet] = Store()
    index_selectors(owners)
    bad = LabelSelectorRequirement(key="a", operator="Near")
    for name, selector in (
        ("absent", None),
        ("empty", LabelSelector()),
        ("invalid", LabelSelector(match_expressions=(bad,))),
    ):
        owners.put(owner(name, selector))
    assert owners_selecting(owners, orphan("p", a="x")) == []


# Takeover


async def test_what_was_there_before_is_looked_at_once() -> None:
    """Where there was a former leader; what came later is our own."""
    clock = LoopClock(EPOCH)
    before = msgspec.structs.replace(
        Pod(), metadata=PodMeta(name="a", creation_timestamp="2025-12-31T23:00:00Z")
    )
    later = msgspec.structs.replace(
        Pod(), metadata=PodMeta(name="b", creation_timestamp="2026-01-01T00:01:00Z")
    )
    inheritance = Takeover(clock, elected=True)
    assert not inheritance.is_doubtful(before)  # nobody acts yet
    inheritance.begin()
    assert inheritance.is_doubtful(before)
    assert not inheritance.is_doubtful(later)
    inheritance.looked_at("a")
    assert not inheritance.is_doubtful(before)
    inheritance.forget("a")
    assert inheritance.is_doubtful(before)
    alone = Takeover(clock, elected=False)
    alone.begin()
    assert not alone.is_doubtful(before)
