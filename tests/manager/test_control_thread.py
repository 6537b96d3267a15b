"""The thread of lease and endpoints, beside a main loop that may be busy."""

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop
from prometheus_client import CollectorRegistry

from controller_manager.api.coordination.v1 import LEASES
from controller_manager.client.leadership.leader_election import LeadershipLost
from controller_manager.clock import SystemClock
from controller_manager.manager.control_loop import (
    ControlLoop,
    ControlThread,
    InMainLoop,
)
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.serving.answers import Pieces, in_main
from controller_manager.serving.main_loop import LastAnswer, MainLoopBusy
from tests.clusters import Cluster, make_config, manager_of, running_manager

_PATIENCE = "controller_manager.manager.control_loop.LAST_PATIENCE"


@asynccontextmanager
async def threaded(
    end: Callable[[str], None] = lambda _: None,
    make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> AsyncIterator[ControlThread]:
    thread = ControlThread(SystemClock(), silent_logger(), make_loop, end)
    async with thread:
        yield thread


async def which_thread() -> str:
    return threading.current_thread().name


async def test_work_runs_in_the_thread_and_its_outcome_comes_back() -> None:
    async def fail() -> None:
        msg = "no"
        raise ValueError(msg)

    usual = sys.getswitchinterval()
    async with threaded() as control_loop:
        assert sys.getswitchinterval() == pytest.approx(0.001)
        assert await control_loop.run(which_thread) == "control"
        with pytest.raises(ValueError, match="no"):
            await control_loop.run(fail)
    assert "control" not in [each.name for each in threading.enumerate()]
    assert sys.getswitchinterval() == usual


async def test_both_threads_may_run_programs_at_the_same_time() -> None:
    """Each has credentials of its own, which may come from a program."""

    async def run_program() -> bytes:
        program = await asyncio.create_subprocess_exec(
            "sh", "-c", "echo token", stdout=asyncio.subprocess.PIPE
        )
        return (await program.communicate())[0]

    async with threaded(make_loop=uvloop.new_event_loop) as control_loop:
        runs = (
            run_program(),
            control_loop.run(run_program),
            control_loop.run(run_program),
        )
        assert [*await asyncio.gather(*runs)] == [b"token\n"] * 3


async def test_work_whose_caller_is_cancelled_has_ended_when_the_caller_goes_on() -> (
    None
):
    """A renewal in progress must not arrive after the release."""
    steps = []
    begun = threading.Event()

    async def work() -> None:
        try:
            begun.set()
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)
            steps.append("work")

    async with threaded() as control_loop:
        caller = asyncio.create_task(control_loop.run(work))
        await asyncio.to_thread(begun.wait)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        steps.append("caller")
    assert caller.cancelled()
    assert steps == ["work", "caller"]


async def test_a_question_is_answered_by_the_main_loop() -> None:
    def fail() -> None:
        msg = "no"
        raise ValueError(msg)

    async with threaded() as control_loop:
        answer = await control_loop.run(
            lambda: control_loop.ask(lambda: threading.current_thread().name, 5)
        )
        assert answer == threading.current_thread().name
        with pytest.raises(ValueError, match="no"):
            await control_loop.run(lambda: control_loop.ask(fail, 5))


async def test_a_busy_main_loop_is_not_waited_for_and_not_asked_later() -> None:
    asked: list[str] = []
    problems: list[str] = []
    given_up = threading.Event()

    async def ask(control_loop: ControlLoop) -> None:
        try:
            await control_loop.ask(lambda: asked.append("late"), 0.05)
        except MainLoopBusy as busy:
            problems.append(str(busy))
        given_up.set()

    async with threaded() as control_loop:
        asking = asyncio.create_task(control_loop.run(lambda: ask(control_loop)))
        await asyncio.sleep(0)
        assert given_up.wait(5)  # blocks the main loop
        await asking
        await asyncio.sleep(0.01)
    assert asked == []
    assert problems == ["the main event loop has been busy for 0.1 s"]


async def test_probes_of_a_busy_main_loop_share_a_question_and_the_last_answer() -> (
    None
):
    """A hundred probes cost the main loop one call."""
    calls: list[None] = []
    done = threading.Event()
    answers: list[int] = []

    def question() -> int:
        calls.append(None)
        return len(calls)

    async def probes(last: LastAnswer[int]) -> None:
        answers.extend(await asyncio.gather(*(last.get() for _ in range(100))))
        done.set()

    async with threaded() as control_loop:

        async def made() -> LastAnswer[int]:
            return LastAnswer(control_loop, question, 0)

        last = await control_loop.run(made)
        assert await control_loop.run(last.get) == 1
        probing = asyncio.create_task(control_loop.run(lambda: probes(last)))
        await asyncio.sleep(0)
        assert done.wait(5)  # blocks the main loop
        await probing
    assert answers == [1] * 100
    assert len(calls) <= 2


async def test_a_page_is_made_piece_by_piece_in_the_main_loop() -> None:
    """A dict that grows between two pieces is no danger: one thread uses it."""

    def pieces() -> Pieces:
        for _ in range(3):
            yield threading.current_thread().name.encode()

    async def read() -> list[bytes]:
        return [each async for each in in_main(control_loop, pieces())]

    async with threaded() as control_loop:
        main = threading.current_thread().name.encode()
        assert await control_loop.run(read) == [main] * 3


async def test_a_main_loop_that_does_not_take_the_news_of_a_lost_lease_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_PATIENCE, 0.05)
    ended = threading.Event()
    reasons: list[str] = []

    def end(reason: str) -> None:
        reasons.append(reason)
        ended.set()

    async def lose() -> None:
        msg = "another process holds it"
        raise LeadershipLost(msg)

    async with threaded(end) as control_loop:
        losing = asyncio.create_task(control_loop.run(lose))
        await asyncio.sleep(0)
        assert ended.wait(5)  # blocks the main loop
        with pytest.raises(LeadershipLost):
            await losing
    [reason] = reasons
    assert "another process holds it; the main event loop does not answer" in reason
    assert "ended.wait(5)" in reason


async def test_a_main_loop_that_takes_the_news_of_a_lost_lease_ends_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It cancels its syncs, and nothing kills it meanwhile."""
    monkeypatch.setattr(_PATIENCE, 0.05)
    reasons: list[str] = []

    async def lose() -> None:
        msg = "lost"
        raise LeadershipLost(msg)

    async with threaded(reasons.append) as control_loop:
        with pytest.raises(LeadershipLost):
            await control_loop.run(lose)
        await asyncio.sleep(0.1)
    assert reasons == []


async def test_a_blocked_main_loop_keeps_the_lease(cluster: Cluster) -> None:
    """For longer than a lease lasts. Before, nothing was renewed meanwhile."""
    lease = LeaderElectionConfig(
        lease_duration=1.2, renew_deadline=0.9, retry_period=0.1
    )
    numbers = CollectorRegistry()
    async with threaded() as control_loop:
        manager = manager_of(
            cluster,
            make_config(leader_election=lease),
            clock=SystemClock(),
            registry=numbers,
            control_loop=control_loop,
        )
        stop = asyncio.Event()
        running = asyncio.create_task(manager.run(stop))
        await manager.started.wait()
        elector = manager.elector
        assert elector is not None
        time.sleep(1.5)  # noqa: ASYNC251 - blocks the main loop
        assert elector.seconds_left() > 0
        await asyncio.sleep(0.05)
        assert not running.done()
        stop.set()
        await running
    stored = await cluster.client.get(LEASES, "kube-system", "kube-controller-manager")
    assert stored.spec.holder_identity == ""


@pytest.mark.looptime
async def test_a_manager_on_virtual_time_starts_no_thread(cluster: Cluster) -> None:
    before = threading.active_count()
    manager = manager_of(cluster, make_config(leader_election=LeaderElectionConfig()))
    async with running_manager(manager):
        await asyncio.sleep(60)
        assert threading.active_count() == before


async def test_in_the_main_loop_everything_is_answered_at_once() -> None:
    """As tests on virtual time need it."""
    control_loop = InMainLoop()
    heard: list[str] = []
    control_loop.tell(lambda: heard.append("news"))
    main = threading.current_thread().name
    assert await control_loop.run(which_thread) == main
    assert await control_loop.ask(lambda: 3, 0) == 3
    assert (control_loop.silence(), control_loop.problem(), control_loop.is_hung) == (
        0,
        None,
        False,
    )
    assert (heard, control_loop.stack()) == (["news"], "")
