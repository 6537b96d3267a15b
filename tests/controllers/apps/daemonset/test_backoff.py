"""The delays before failed pods are replaced."""

import asyncio

import pytest

from controller_manager.clock import LoopClock
from controller_manager.controllers.apps.daemonset.backoff import (
    NO_DELAYS,
    Delays,
    FailedPodBackoff,
)
from tests.clusters import EPOCH

pytestmark = pytest.mark.looptime

NODES = {"n1", "n2"}


def delay(backoff: FailedPodBackoff, node: str = "n1") -> float:
    """Return the delay of a node in whole seconds, 0 for none."""
    return round(backoff.delays("a/b", 1, NODES).failed.get(node, 0.0))


async def test_the_delay_doubles_up_to_a_quarter_of_an_hour() -> None:
    """The first failed pod is replaced at once, and each node counts alone."""
    backoff = FailedPodBackoff(LoopClock(EPOCH))
    assert delay(backoff) == 0
    seen = []
    for _ in range(12):
        backoff.replaced("a/b", 1, "n1", "p")
        seen.append(delay(backoff))
        assert delay(backoff, "n2") == 0
        await asyncio.sleep(seen[-1])
        assert delay(backoff) == 0
    assert seen == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]


async def test_the_rest_of_a_delay_is_returned() -> None:
    """So the next sync comes when the delay ends."""
    backoff = FailedPodBackoff(LoopClock(EPOCH))
    for _ in range(4):
        backoff.replaced("a/b", 1, "n1", "p")
    await asyncio.sleep(5)
    assert delay(backoff) == 3


async def test_after_half_an_hour_it_begins_again() -> None:
    """After twice the longest delay, as in upstream."""
    backoff = FailedPodBackoff(LoopClock(EPOCH))
    backoff.replaced("a/b", 1, "n1", "p")
    backoff.replaced("a/b", 1, "n1", "p")
    await asyncio.sleep(1801)
    assert delay(backoff) == 0
    backoff.replaced("a/b", 1, "n1", "p")
    assert delay(backoff) == 1


async def test_another_generation_begins_again() -> None:
    """A new template may repair the failure."""
    backoff = FailedPodBackoff(LoopClock(EPOCH))
    backoff.replaced("a/b", 0, "n1", "p")
    assert backoff.delays("a/b", 1, NODES) == NO_DELAYS
    backoff.replaced("a/b", 0, "n1", "p")
    backoff.replaced("a/b", 1, "n1", "p")
    assert delay(backoff) == 1


async def test_a_failed_pod_that_others_delete_is_replaced_after_the_delay() -> None:
    """Its creation is the replacement; several events tell of one deletion."""
    backoff = FailedPodBackoff(LoopClock(EPOCH))
    backoff.deleted_by_others("a/b", 1, "n1", "p1")
    assert backoff.delays("a/b", 1, NODES) == NO_DELAYS
    backoff.created("a/b", 1, "n1")
    backoff.deleted_by_others("a/b", 1, "n1", "p1")
    assert backoff.delays("a/b", 1, NODES) == Delays({"n1": 1.0}, {})
    backoff.deleted_by_others("a/b", 1, "n1", "p2")
    assert backoff.delays("a/b", 1, NODES) == Delays({"n1": 1.0}, {"n1": 1.0})
    await asyncio.sleep(1)
    assert backoff.delays("a/b", 1, NODES) == NO_DELAYS
    backoff.created("a/b", 1, "n1")
    backoff.created("a/b", 1, "n1")
    assert backoff.delays("a/b", 1, NODES) == Delays({"n1": 2.0}, {})
    backoff.replaced("a/b", 1, "n1", "p3")
    backoff.deleted_by_others("a/b", 1, "n1", "p3")
    assert backoff.delays("a/b", 1, NODES) == Delays({"n1": 4.0}, {})


async def test_no_failures_are_kept_of_objects_that_are_gone() -> None:
    """Of daemon sets that are gone, and of nodes where no pod may run."""
    backoff = FailedPodBackoff(LoopClock(EPOCH))
    for node in ("n1", "n3"):
        backoff.replaced("a/b", 1, node, "p")
    assert set(backoff.delays("a/b", 1, NODES).failed) == {"n1"}
    assert set(backoff.delays("a/b", 1, {"n1", "n3"}).failed) == {"n1"}
    backoff.replaced("c/d", 1, "n1", "p")
    backoff.forget("c/d")
    assert len(backoff) == 1
    assert (backoff.delays("a/b", 1, set()), len(backoff)) == (NO_DELAYS, 0)


class Ticks(LoopClock):
    """A clock that shows given times, one after the other."""

    def __init__(self, *times: float) -> None:
        super().__init__(EPOCH)
        self._times = iter(times)

    def monotonic(self) -> float:
        return next(self._times)


async def test_an_error_of_floating_point_is_no_delay() -> None:
    """On virtual time, waiting for it would never end."""
    began = 1.4000000000000001
    assert began + 1 > 2.4
    backoff = FailedPodBackoff(Ticks(began, 2.4))
    backoff.replaced("a/b", 1, "n1", "p")
    assert backoff.delays("a/b", 1, NODES) == NO_DELAYS
