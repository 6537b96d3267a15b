"""Delays the work of the driver, as on a real cluster, so that users can see it."""

import asyncio
from collections.abc import Callable
from typing import Final

from controller_manager.devcluster.server.storage.storage import Key

RESIZE_SECONDS: Final = 1.0
"""The seconds to resize a volume, and then its file system."""


class Delays:
    """Calls functions later, at most one for each key."""

    def __init__(self) -> None:
        """Begin without calls."""
        self._timers: dict[Key, asyncio.TimerHandle] = {}

    def call(self, key: Key, seconds: float, function: Callable[[Key], None]) -> None:
        """Call a function with its key, unless a call with that key is due already."""
        if key not in self._timers:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(seconds, self._call, key, function)
            self._timers[key] = timer

    def close(self) -> None:
        """Cancel all calls."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _call(self, key: Key, function: Callable[[Key], None]) -> None:
        del self._timers[key]
        function(key)
