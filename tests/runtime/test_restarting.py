"""Work that fails unexpectedly is done again, and ends nothing else."""

import asyncio
import io
import random
from collections.abc import Iterator

import pytest
from msgspec import Struct

from controller_manager.clock import LoopClock
from controller_manager.observability.logs import make_logger
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.worker import Turns, Workers, until_done
from controller_manager.workqueue.queue import WorkQueue
from tests.clusters import EPOCH
from tests.runtime.test_worker import Script, Syncs

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
    clock, log, defects = LoopClock(EPOCH), io.StringIO(), list[str]()
    queue = WorkQueue(clock, is_open=False)
    attempts = iter([on_start])

    def start() -> Iterator[None]:
        for attempt in attempts:
            yield from attempt
        queue.add("a")
        yield

    workers = Workers(
        "test-controller",
        queue,
        script,
        2,
        clock=clock,
        rng=random.Random(1),
        logger=make_logger(stream=log),
        metrics=Syncs(),
        turns=Turns(),
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
