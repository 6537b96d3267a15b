"""The worker loop maps every outcome to the queue."""

import asyncio
import io
import random
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes_asyncio.client import ApiException

from controller_manager.api.meta import Status
from controller_manager.client.rest.errors import (
    APIError,
    Conflict,
    Forbidden,
    NotFound,
    TransportError,
)
from controller_manager.clock import LoopClock
from controller_manager.observability.logs import make_logger, silent_logger
from controller_manager.runtime.controller import WorkerGroup
from controller_manager.runtime.outcome import DONE, Done, Failed, Outcome, Requeue
from controller_manager.runtime.worker import Reconcile, Turns, Workers
from controller_manager.workqueue.queue import WorkQueue
from tests.clusters import EPOCH

pytestmark = pytest.mark.looptime


class Script:
    """A reconcile that follows a script, and records when it was called."""

    def __init__(self, *outcomes: Outcome | Exception) -> None:
        self.outcomes = list(outcomes)
        self.calls: list[tuple[float, str]] = []

    async def __call__(self, key: str) -> Outcome:
        self.calls.append((round(asyncio.get_running_loop().time(), 6), key))
        outcome = self.outcomes.pop(0) if self.outcomes else DONE
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class Syncs:
    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def observe(self, outcome: str, seconds: float) -> None:
        assert seconds >= 0
        self.outcomes.append(outcome)


def workers_of(
    queue: WorkQueue, sync: Reconcile, count: int = 2, **more: Any
) -> Workers:
    """Return silent workers on virtual time, unless told otherwise."""
    given: dict[str, Any] = {
        "clock": LoopClock(EPOCH),
        "rng": random.Random(1),
        "logger": silent_logger(),
        "metrics": Syncs(),
        "turns": Turns(),
        **more,
    }
    return Workers("test-controller", queue, sync, count, **given)


async def play(script: Script, verbosity: int = 0) -> tuple[Syncs, WorkQueue, str]:
    """Process one key until its queue is idle; return the observed outcomes."""
    syncs, log = Syncs(), io.StringIO()
    queue = WorkQueue(LoopClock(EPOCH))
    logger = make_logger(verbosity=verbosity, stream=log)
    workers = workers_of(queue, script, metrics=syncs, logger=logger)
    running = asyncio.create_task(workers.run())
    await asyncio.sleep(0.1)
    healthy = workers.is_healthy
    assert healthy
    queue.add("a")
    await asyncio.sleep(1000)
    workers.stop()
    await running
    assert workers.is_healthy is False
    return syncs, queue, log.getvalue()


async def test_a_key_that_is_done_is_not_synced_again() -> None:
    """Until someone adds it again."""
    script = Script(DONE)
    syncs, _, _ = await play(script)
    assert (script.calls, syncs.outcomes) == ([(0.1, "a")], ["success"])


async def test_a_key_is_synced_again_after_its_requeue_delay() -> None:
    script = Script(Done(requeue_after=30))
    await play(script)
    assert script.calls == [(0.1, "a"), (30.1, "a")]


async def test_a_failure_is_retried_with_backoff_and_success_resets_it() -> None:
    boom = TransportError("boom")
    script = Script(boom, boom, Done(requeue_after=1), boom)
    syncs, queue, log = await play(script)
    assert [round(each - 0.1, 6) for each, _ in script.calls] == [
        0,
        0.005,
        0.015,
        1.015,
        1.02,
    ]
    assert syncs.outcomes == ["error", "error", "success", "error", "success"]
    assert queue.failures("a") == 0
    assert log.count('"Sync failed" err="boom"') == 3
    assert "Traceback" not in log


async def test_a_failure_keeps_the_time_of_the_next_sync() -> None:
    """The earlier of that time and the backoff counts, and both leave the failures."""
    boom = TransportError("boom")
    script = Script(*[boom] * 9, Failed(boom, 2), Failed(boom, 900))
    syncs, _, _ = await play(script)
    # The backoff after the ninth and the tenth failure: 1.28 and 2.56 seconds.
    began = script.calls[9][0]
    after = [round(each - began, 6) for each, _ in script.calls[10:]]
    assert after == [2, 2.56, 902]
    assert syncs.outcomes == ["error"] * 11 + ["success", "success"]


async def test_a_time_that_has_passed_does_not_replace_the_backoff() -> None:
    """Otherwise the key would be synced without a pause."""
    boom = TransportError("boom")
    script = Script(Failed(boom, 0), Failed(boom, -5))
    await play(script)
    assert [round(each - 0.1, 6) for each, _ in script.calls] == [0, 0.005, 0.015]


async def test_a_key_is_never_dropped() -> None:
    """Upstream drops a deployment after 15 failures."""
    script = Script(*[TransportError("boom")] * 20)
    syncs, _, _ = await play(script)
    assert syncs.outcomes == ["error"] * 20 + ["success"]


async def test_a_requeue_does_not_reset_a_backoff() -> None:
    boom = TransportError("boom")
    script = Script(boom, boom, Requeue(1, "stale"), boom)
    syncs, _, _ = await play(script)
    assert [round(each - 0.1, 6) for each, _ in script.calls] == [
        0,
        0.005,
        0.015,
        1.015,
        1.035,
    ]
    assert syncs.outcomes == ["error", "error", "requeue", "error", "success"]


async def test_a_defect_is_logged_with_a_traceback() -> None:
    script = Script(ZeroDivisionError("oops"))
    _, _, log = await play(script)
    first = log.splitlines()[0]
    assert 'key="a"' in first
    assert 'controller="test-controller"' in first
    assert "reconcile_id=" in first
    assert "Traceback" in log
    assert len(script.calls) == 2


async def test_a_conflict_is_logged_as_information_only() -> None:
    """It is retried, and logged at verbosity 2 only."""
    conflict = Conflict(Status(message="changed", code=409))
    _, _, quiet = await play(Script(conflict))
    _, _, verbose = await play(Script(conflict), verbosity=2)
    assert quiet == ""
    assert "Sync to be retried" in verbose


@pytest.mark.parametrize(
    ("refusal", "logged"),
    [
        (Conflict(Status(message="changed")), '"Sync to be retried" err="changed"'),
        (NotFound(Status(message="gone")), '"Sync failed" err="gone"'),
    ],
)
async def test_an_error_of_another_client_is_logged_as_the_refusal_behind_it(
    refusal: APIError, logged: str
) -> None:
    """An ApiException of kubernetes_asyncio is no defect; its text has many lines."""
    error = ApiException(status=409)
    error.__cause__ = refusal
    _, _, log = await play(Script(error), verbosity=2)
    assert (log.count(logged), "Traceback" in log) == (1, False)


async def test_a_refused_object_is_an_outcome_of_its_own() -> None:
    """It is logged as a warning, and retried as any failure; a lack of rights fails."""
    quota = Forbidden(
        Status(
            code=403,
            reason="Forbidden",
            message='pods "web-" is forbidden: exceeded quota: q',
        )
    )
    role = Forbidden(
        Status(
            code=403,
            reason="Forbidden",
            message='pods is forbidden: User "a" cannot create resource "pods"',
        )
    )
    script = Script(quota, Failed(quota, 900), role)
    syncs, _, log = await play(script)
    assert [round(each - 0.1, 6) for each, _ in script.calls] == [
        0,
        0.005,
        0.015,
        0.035,
        900.005,
    ]
    assert syncs.outcomes == ["refused", "refused", "error", "success", "success"]
    assert [line[0] for line in log.splitlines()] == ["W", "W", "E"]
    assert log.count("Sync refused") == 2


async def test_several_pools_are_one_controller() -> None:
    """All queues accept keys before any worker runs; it is healthy if all pools are."""
    clock = LoopClock(EPOCH)
    first = WorkQueue(clock, is_open=False)
    second = WorkQueue(clock, is_open=False)

    def add_one() -> Iterator[None]:
        second.add("begin")
        yield

    async def pass_on(key: str) -> Outcome:
        first.add(f"from {key}")
        return DONE

    script = Script()
    pools = [
        workers_of(queue, reconcile, 1, on_start=on_start)
        for queue, reconcile, on_start in (
            (first, script, tuple),
            (second, pass_on, add_one),
        )
    ]
    page = (each for each in (b"a page",))
    subject = WorkerGroup(*pools, debug={"page": lambda _: ("text/plain", page)})
    running = asyncio.create_task(subject.run())
    await asyncio.sleep(1)
    assert [key for _, key in script.calls] == ["from begin"]
    assert (subject.name, subject.is_healthy, subject.is_idle) == (
        "test-controller",
        True,
        True,
    )
    pools[1]._alive -= 1
    assert subject.is_healthy is False
    pools[1]._alive += 1
    subject.stop()
    await running
