"""One write is tried before many, and no batch grows without a limit."""

import asyncio

from controller_manager.control.pod_control import slow_start


async def test_batches_double_up_to_256_writes() -> None:
    """The bodies of a batch are made in one turn of the event loop."""
    batches: list[int] = []
    running = 0

    async def action() -> None:
        nonlocal running
        running += 1
        await asyncio.sleep(0)
        if running:
            batches.append(running)
            running = 0

    assert await slow_start(1000, action) == (1000, None)
    assert batches == [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 233]


async def test_no_batch_follows_one_with_a_failure() -> None:
    refused = ValueError("exceeded quota")
    asked = 0

    async def action() -> None:
        nonlocal asked
        asked += 1
        if asked >= 3:
            raise refused

    assert await slow_start(1000, action) == (3, refused)
    assert asked == 3
