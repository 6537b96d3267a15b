"""A controller tells what became of a key, and what its object waits for."""

import asyncio
import random

import pytest

from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.meta import Status
from controller_manager.client.rest.errors import Invalid, TransportError
from controller_manager.clock import LoopClock
from controller_manager.observability.logs import silent_logger
from controller_manager.runtime.outcome import (
    DONE,
    Done,
    Failed,
    KeyReport,
    Outcome,
    Reason,
    Requeue,
    SyncRecord,
    SyncRecords,
)
from controller_manager.runtime.worker import Turns, Workers
from controller_manager.workqueue.queue import KeyState, WorkQueue
from tests.clusters import EPOCH
from tests.runtime.test_worker import Script, Syncs

pytestmark = pytest.mark.looptime

REASON = Reason("2 new pods to become available", None, ObjectReference(name="web"))


@pytest.mark.parametrize(
    ("outcome", "state", "last_sync"),
    [
        (DONE, KeyState("Idle"), None),
        (Done(30), KeyState("Delayed", next_sync=30), None),
        (
            Done(30, (REASON,)),
            KeyState("Delayed", next_sync=30),
            SyncRecord(EPOCH, 0, "success", waiting_for=(REASON,)),
        ),
        (
            Requeue(20, "the cache is old"),
            KeyState("Delayed", next_sync=20),
            SyncRecord(EPOCH, 0, "requeue", "the cache is old"),
        ),
        (
            TransportError("no answer"),
            KeyState("BackingOff", next_sync=0.005, retries=1),
            SyncRecord(EPOCH, 0, "error", "no answer"),
        ),
        (
            Invalid(Status(code=422, reason="Invalid", message="is invalid")),
            KeyState("BackingOff", next_sync=0.005, retries=1),
            SyncRecord(EPOCH, 0, "refused", "is invalid"),
        ),
        (
            Failed(TransportError("no answer"), 0.001),
            KeyState("Delayed", next_sync=0.001, retries=1),
            SyncRecord(EPOCH, 0, "error", "no answer"),
        ),
    ],
)
async def test_a_report_has_the_last_sync_and_the_time_of_the_next(
    outcome: Outcome | Exception, state: KeyState, last_sync: SyncRecord | None
) -> None:
    """A sync that left nothing to do is not remembered."""
    clock = LoopClock(EPOCH)
    queue = WorkQueue(clock, name="test")
    workers = Workers(
        "test-controller",
        queue,
        Script(outcome),
        1,
        clock=clock,
        rng=random.Random(1),
        logger=silent_logger(),
        metrics=Syncs(),
        turns=Turns(),
    )
    running = asyncio.create_task(workers.run())
    queue.add("default/web")
    await queue.drained()
    assert workers.key_reports("default/web") == [KeyReport("test", state, last_sync)]
    workers.stop()
    await running


async def test_nothing_is_remembered_of_a_key_whose_object_has_all_it_wants() -> None:
    records = SyncRecords(LoopClock(EPOCH))
    for key in ("a", "b"):
        records.ended(key, Failed(TransportError("no answer")), 1)
    assert len(records) == 2
    records.ended("a", DONE, 1)
    records.ended("b", Done(5), 1)
    assert len(records) == 0
