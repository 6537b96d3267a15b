"""The shared cores: expectations, slow start, takeover."""

import asyncio

import msgspec
import pytest

from controller_manager.api.core.v1 import Pod, PodMeta
from controller_manager.clock import LoopClock
from controller_manager.control.expectations import (
    TIMEOUT,
    Expectations,
    State,
    Takeover,
)
from controller_manager.control.pod_control import slow_start
from tests.clusters import EPOCH

pytestmark = pytest.mark.looptime


@pytest.fixture
def expectations() -> Expectations:
    return Expectations(LoopClock(EPOCH))


async def test_no_expectations_are_fulfilled_ones(expectations: Expectations) -> None:
    """It may write."""
    assert expectations.state("a") is State.FULFILLED


async def test_creations_are_fulfilled_by_number(expectations: Expectations) -> None:
    """One by one; more adds than expected do no harm."""
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
