"""Watching the event loop: how late it is."""

import asyncio
import itertools
from typing import Final

from controller_manager.observability.metrics import LoopCollectors

_INTERVAL: Final = 5.0
_MINUTE: Final = 12
"""Intervals in a minute."""


async def watch_loop(metrics: LoopCollectors) -> None:
    """Observe, every five seconds and for ever, by how much a timer is late."""
    loop = asyncio.get_running_loop()
    for number in itertools.count(1):
        due = loop.time() + _INTERVAL
        await asyncio.sleep(_INTERVAL)
        metrics.late(max(0.0, loop.time() - due))
        if number % _MINUTE == 0:
            metrics.next_minute()
