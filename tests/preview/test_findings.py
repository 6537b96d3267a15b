"""A difference counts once a controller has written the same again, in vain."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.clock import LoopClock
from controller_manager.observability.logs import silent_logger
from controller_manager.preview.findings import (
    Difference,
    FieldDifference,
    Findings,
    PreviewMetrics,
)
from tests.clusters import EPOCH

pytestmark = pytest.mark.looptime

GRACE = 30.0
CREATION = Difference("job-controller", "Pod", "create", "preview", "pods a/b-* of b")


def findings() -> Findings:
    return Findings(
        LoopClock(EPOCH),
        PreviewMetrics(CollectorRegistry()),
        silent_logger(),
        grace=GRACE,
        most=10,
    )


def update(*fields: str) -> Difference:
    differing = tuple(FieldDifference(each, "1", "2") for each in fields)
    return Difference("job-controller", "Job", "update", "both", "jobs a/b", differing)


async def found(first: Difference, second: Difference, seconds: float) -> int:
    seen = findings()
    seen.report(first)
    await asyncio.sleep(seconds)
    seen.report(second)
    return len(seen)


async def test_a_write_that_is_made_again_in_vain_is_a_divergence() -> None:
    assert await found(CREATION, CREATION, GRACE + 1) == 1
    assert await found(update("status.ready"), update("status.ready"), GRACE + 1) == 1


async def test_several_writes_at_once_with_one_identity_are_one_suspicion() -> None:
    """The pods of a replica set that only the preview has created."""
    assert await found(CREATION, CREATION, 1) == 0


async def test_a_write_of_long_ago_is_no_sign_of_a_difference() -> None:
    assert await found(CREATION, CREATION, 5 * GRACE) == 0


async def test_another_timestamp_alone_follows_from_an_earlier_difference() -> None:
    first = update("status.active", "status.completionTime")
    assert await found(first, update("status.completionTime"), GRACE + 1) == 0
    time = update("status.completionTime")
    assert await found(time, time, GRACE + 1) == 1


async def test_a_certain_difference_counts_at_once() -> None:
    seen = findings()
    seen.report(CREATION, is_certain=True)
    assert [each.difference for each in seen] == [CREATION]
