"""A loop whose time passes faster."""

import asyncio
import time

from controller_manager.devcluster.testing.cluster import PacedLoop


def test_an_hour_of_waiting_takes_less_than_a_minute() -> None:
    async def wait() -> float:
        loop = asyncio.get_running_loop()
        before = loop.time()
        await asyncio.sleep(1800)
        await asyncio.sleep(1800)
        return loop.time() - before

    began = time.monotonic()
    with asyncio.Runner(loop_factory=lambda: PacedLoop(10_000)) as runner:
        passed = runner.run(wait())
    assert 3600 <= passed < 3601
    assert 0.3 < time.monotonic() - began < 60


def test_timers_fire_at_their_times_while_the_loop_has_work() -> None:
    """Work is not multiplied: no timer finds that another one is long due."""

    async def work_and_wait() -> list[float]:
        loop = asyncio.get_running_loop()
        began, lateness = loop.time(), list[float]()
        for second in range(1, 11):
            loop.call_at(
                began + second,
                lambda due: lateness.append(loop.time() - due),
                began + second,
            )
        while len(lateness) < 10:
            sum(range(10_000))  # about a tenth of a millisecond
            await asyncio.sleep(0.1)
        return lateness

    with asyncio.Runner(loop_factory=lambda: PacedLoop(1000)) as runner:
        lateness = runner.run(work_and_wait())
    assert len(lateness) == 10
    assert max(lateness) < 0.5
