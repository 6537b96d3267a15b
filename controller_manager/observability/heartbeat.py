"""The heartbeat of the main event loop, which another thread looks at.

The main loop beats every five seconds. A turn of the loop that takes long delays the
beat, and the other thread says so: in /livez, in a metric, and in the log with the
stack of the main thread. A leader whose main loop hangs for good must lose its lease on
purpose: it does no work, and the standby would.
"""

import asyncio
import sys
import threading
import traceback
from typing import Final

from controller_manager.clock import Clock

from .logs import Logger

BEAT: Final = 5.0
"""Seconds between two beats, and between two looks at them while none is late.

A beat of an idle manager wakes two threads, for some 0.3 ms of CPU. With a beat each
second, the beats took most of the CPU time of an idle manager.
"""

_LATE_LOOK: Final = 1.0
"""Seconds between two looks while a beat is late by more than that."""

STALLED: Final = 10.0
"""Seconds without a turn of the main loop after which /livez fails.

The longest turns are collections of garbage: a second with 100,000 objects.
"""

HUNG: Final = 60.0
"""Seconds without a turn of the main loop after which the lease is not renewed."""


class Heartbeat:
    """The time of the last beat of the main loop; both threads may read it."""

    def __init__(self, clock: Clock, logger: Logger) -> None:
        self._clock = clock
        self._logger = logger
        self._thread = threading.get_ident()
        self._beat_at = clock.monotonic()
        self._is_reported = False
        self.is_hung = False
        """True if the main loop has not turned for `HUNG` seconds."""

    def silence(self) -> float:
        """Return for how many seconds the main loop is late with its beat."""
        return max(0.0, self._clock.monotonic() - self._beat_at - BEAT)

    def problem(self) -> str | None:
        """Return the problem of a main loop that has stalled, `None` if it turns."""
        seconds = self.silence()
        if seconds < STALLED:
            return None
        return f"the main event loop has not turned for {seconds:.1f} s"

    async def beat(self) -> None:
        """Beat for ever; runs in the main loop."""
        while True:
            self._beat_at = self._clock.monotonic()
            await asyncio.sleep(BEAT)

    async def watch(self) -> None:
        """Look at the beats for ever; runs in the loop of the other thread.

        The whole process may have been stopped (SIGSTOP, a suspended machine). Then
        both threads go on at the same moment, so one late beat proves nothing: the main
        loop hangs if it is late twice in a row.
        """
        late_before = False
        seconds = 0.0
        while True:
            await asyncio.sleep(BEAT if seconds < _LATE_LOOK else _LATE_LOOK)
            seconds = self.silence()
            late = seconds >= HUNG
            self._set_hung(seconds, hung=late and late_before)
            late_before = late
            self._report(seconds)

    def _set_hung(self, seconds: float, *, hung: bool) -> None:
        if hung and not self.is_hung:
            self._logger.error(
                "The main event loop hangs, the lease is not renewed any more",
                seconds=seconds,
            )
        self.is_hung = hung

    def _report(self, seconds: float) -> None:
        """Log once that the main loop has stalled, and where; and that it goes on."""
        if seconds < STALLED:
            if self._is_reported:
                self._logger.info("The main event loop turns again")
            self._is_reported = False
        elif not self._is_reported:
            self._is_reported = True
            self._logger.error(
                "The main event loop has stalled", seconds=seconds, stack=self.stack()
            )

    def stack(self) -> str:
        """Return the stack of the main thread, the innermost call last.

        A failure is returned as text: it must neither end the look at the beats, nor
        keep a process alive that has lost its lease.
        """
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - the only way
        try:
            return "".join(traceback.format_stack(frame)) if frame is not None else ""
        except Exception as error:  # noqa: BLE001 - shown instead of the stack
            return f"the stack cannot be read: {error!r}"
