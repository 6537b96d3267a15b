"""An event loop in which time passes faster than outside."""

import asyncio
import selectors
import time
from typing import Any, Final

_HANDSHAKE: Final = 60.0
"""Seconds that asyncio gives a client for the handshake."""

_TOLERANCE: Final = 1e-6
"""Seconds added to a wait, so that the timer for which the loop waits is due."""


class _PacedSelector(selectors.DefaultSelector):
    """Waits for a fraction of each timeout, and counts the skipped time.

    Only waiting is shortened. Work takes its real time, and a wait never passes the
    timer at its end. So timers fire in their order, at their times, also on a machine
    that is too busy: no lease expires because its holder had no CPU.
    """

    def __init__(self, factor: float) -> None:
        super().__init__()
        self._factor = factor
        self.skipped = 0.0

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events, for the fraction of `timeout` seconds."""
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        began = time.monotonic()
        events = super().select(None if timeout is None else timeout / self._factor)
        waited = time.monotonic() - began
        passed = waited * self._factor
        if timeout is not None:
            passed = min(passed, timeout + _TOLERANCE)
        self.skipped += passed - waited
        return events


class PacedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes `factor` times as fast while it waits."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._paced = _PacedSelector(factor)
        super().__init__(self._paced)

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        """Listen; clients have as much of their own time for TLS as on other loops."""
        if options.get("ssl") is not None:
            seconds = _HANDSHAKE * self._factor
            options.setdefault("ssl_handshake_timeout", seconds)
        return await super().create_server(*args, **options)

    def time(self) -> float:
        """Return the seconds of this loop's own time."""
        return super().time() + self._paced.skipped
