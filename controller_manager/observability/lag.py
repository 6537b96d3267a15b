"""The lag of the event loop: by how much its timers are late."""

import asyncio
import itertools
from typing import Final

from .metrics.loop import LoopCollectors

_INTERVAL: Final = 5.0
_MINUTE: Final = 12
"""Intervals in a minute."""


async def observe_lag(metrics: LoopCollectors) -> None:
    """Measure for ever, every five seconds, by how much a timer is late."""
    loop = asyncio.get_running_loop()
    for number in itertools.count(1):
        due = loop.time() + _INTERVAL
        await asyncio.sleep(_INTERVAL)
        metrics.late(max(0.0, loop.time() - due))
        if number % _MINUTE == 0:
            metrics.next_minute()
