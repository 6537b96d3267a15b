"""Workers are restarted, and tell of their keys."""

import asyncio
import io
from collections.abc import Iterator

import pytest
from msgspec import Struct

from controller_manager.api.core.v1 import ObjectReference
from controller_manager.api.meta import Status
from controller_manager.client.rest.errors import Invalid, TransportError
from controller_manager.clock import LoopClock
from controller_manager.observability.logs import make_logger
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
from controller_manager.runtime.worker import Workers, until_done
from controller_manager.workqueue.queue import KeyState, WorkQueue
from tests.clusters import EPOCH
from tests.runtime.test_worker import Script, workers_of

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


class Failing:
    """Work that fails some times; notes when it was tried."""

    def __init__(self, failures: int, error: Exception | None = None) -> None:
        self.tried: list[float] = []
        self._failures = failures
        self._error = error or LookupError("no such code")

    async def __call__(self) -> None:
        self.tried.append(round(now(), 6))
        if len(self.tried) <= self._failures:
            raise self._error


async def test_work_is_tried_again_with_growing_pauses() -> None:
    """One second, doubled up to a minute."""
    work, failed = Failing(8), list[Exception]()
    await until_done(work, failed.append, asyncio.Event())
    assert work.tried == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    assert [type(each) for each in failed] == [LookupError] * 8


async def test_work_is_not_tried_again_once_it_has_to_stop() -> None:
    work, stop = Failing(100), asyncio.Event()
    asyncio.get_running_loop().call_later(10, stop.set)
    await until_done(work, lambda _: None, stop)
    assert (work.tried, now()) == ([0, 1, 3, 7], 10)


class FatalError(Exception):
    """An error that must end the process."""


async def test_an_error_that_must_end_the_process_is_raised() -> None:
    """For example a configuration that cannot be used."""
    work = Failing(1, FatalError())
    with pytest.raises(FatalError):
        await until_done(work, lambda _: None, asyncio.Event(), fatal=(FatalError,))


class Pool(Struct):
    """Workers of a script, their queue and their log."""

    workers: Workers
    queue: WorkQueue
    log: io.StringIO
    defects: list[str]


def pool(script: Script, on_start: Iterator[None], ready: Failing) -> Pool:
    log, defects = io.StringIO(), list[str]()
    queue = WorkQueue(LoopClock(EPOCH), is_open=False)
    attempts = iter([on_start])

    def start() -> Iterator[None]:
        for attempt in attempts:
            yield from attempt
        queue.add("a")
        yield

    workers = workers_of(
        queue,
        script,
        logger=make_logger(stream=log),
        on_start=start,
        ready=ready,
        count_defect=defects.append,
    )
    return Pool(workers, queue, log, defects)


async def test_workers_whose_start_fails_start_later() -> None:
    """A failure of the first steps, and one of the wait before them."""

    def steps() -> Iterator[None]:
        yield
        msg = "no such object"
        raise LookupError(msg)

    script = Script()
    case = pool(script, steps(), Failing(2))
    running = asyncio.create_task(case.workers.run())
    await asyncio.sleep(100)
    assert script.calls == [(3.0, "a")]
    assert case.workers.is_healthy
    assert case.defects == ["test-controller"] * 3
    case.workers.stop()
    await running


async def test_a_late_defect_ends_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    succeed = Workers._ended
    failures = [LookupError("no such outcome")]

    def fail_once(self: Workers, key: str, outcome: Outcome, seconds: float) -> None:
        if failures:
            raise failures.pop()
        succeed(self, key, outcome, seconds)

    monkeypatch.setattr(Workers, "_ended", fail_once)
    script = Script(DONE, DONE)
    case = pool(script, iter(()), Failing(0))
    running = asyncio.create_task(case.workers.run())
    await asyncio.sleep(10)
    assert [key for _, key in script.calls] == ["a", "a"]
    assert case.workers.is_healthy
    assert case.defects == ["test-controller"]
    case.workers.stop()
    await running


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
    queue = WorkQueue(LoopClock(EPOCH), name="test")
    workers = workers_of(queue, Script(outcome), 1)
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
