"""Where log lines go: straight into a stream, or through a queue and a thread.

A pipe whose reader lives but does not read blocks its writers. The daemon
logs from its event loop, so its lines go through a bounded queue to a thread of their
own. Programs that end soon, and tests, write straight into the stream: their lines are
there when the call returns.
"""

import os
import select
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, Protocol, TextIO

MOST_WAITING_BYTES: Final = 4 * 1024 * 1024
"""The most bytes that may wait for the reader of a log: 20,000 lines of 200 bytes."""


class LostLines:
    """The numbers of log lines that were lost.

    All outputs of a logger, and all loggers that are derived from it, share it.
    """

    __slots__ = ("_lock", "dropped", "failed")

    def __init__(self) -> None:
        """Start at zero."""
        self.failed = 0
        """Lines that could not be written: a broken pipe, a full disk."""

        self.dropped = 0
        """Lines for which there was no room, because nothing read the log."""

        self._lock = threading.RLock()

    def fail(self, lines: int) -> None:
        """Count lines that could not be written."""
        with self._lock:
            self.failed += lines

    def drop(self) -> None:
        """Count a line for which there was no room."""
        with self._lock:
            self.dropped += 1


class Output(Protocol):
    """Takes the lines of a log; it never raises, and keeps their order."""

    def write(self, line: str) -> None:
        """Take a line, without its end."""

    def flush(self, seconds: float) -> bool:
        """Wait until all lines are written; tell whether they were, in time."""

    def close(self, seconds: float) -> None:
        """Write the lines that wait, for that many seconds at most."""


class DirectOutput:
    """Writes each line into a stream at once, and waits for the reader if need be."""

    def __init__(self, stream: TextIO | None, lost: LostLines) -> None:
        """Take the stream, `None` if the process has none."""
        self._stream = stream
        self._lost = lost

    def write(self, line: str) -> None:
        """Write a line; count it if that fails."""
        if self._stream is None:
            self._lost.fail(1)
            return
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # ValueError: the file is closed
            self._lost.fail(1)

    def flush(self, seconds: float) -> bool:  # noqa: ARG002 - the protocol's
        """Return True: every line is written already."""
        return True

    def close(self, seconds: float) -> None:
        """Leave the stream open: others may write into it."""


class QueuedOutput:
    """Writes lines in a thread of its own; `write` never waits for the reader.

    While the reader does not read, lines wait, up to a number of bytes. From then on
    lines are dropped until the reader reads again. One line then stands in their place
    and says how many they were.
    """

    def __init__(
        self,
        stream: TextIO,
        lost: LostLines,
        notice: Callable[[int], str],
        *,
        most_bytes: int = MOST_WAITING_BYTES,
    ) -> None:
        """Take a stream with a file descriptor, and start the thread.

        `notice` renders the line about a number of dropped lines. `most_bytes` may
        wait, and as much again may be on its way into the file.
        """
        self._stream = stream
        # The file is written without the stream: a thread that is blocked in a
        # buffered stream holds the stream's lock, and the interpreter needs it to exit.
        self._file = stream.fileno()
        self._encoding = stream.encoding or "utf-8"
        self._lost = lost
        self._notice = notice
        self._most_bytes = most_bytes
        # Reentrant, as the doorbell is: a finalizer may log while its thread is here.
        self._lock = threading.RLock()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._dropped = 0
        self._flushes: list[threading.Event] = []
        self._is_closing = False
        # A daemon thread: one that is blocked must not keep the process from its end.
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Queue a line; drop it if too much waits."""
        data = f"{line}\n".encode(self._encoding, "backslashreplace")
        with self._lock:
            # Once a line was dropped, so are the next ones, until the thread has taken
            # all that wait: the line that says so must stand in their place.
            if self._dropped or self._waiting_bytes >= self._most_bytes:
                self._dropped += 1
                self._lost.drop()
                return
            self._waiting.append(data)
            self._waiting_bytes += len(data)
        self._bell.put(None)

    def flush(self, seconds: float) -> bool:
        """Wait until all lines so far are written; tell whether they were, in time."""
        written = threading.Event()
        with self._lock:
            self._flushes.append(written)
        self._bell.put(None)
        return written.wait(seconds)

    def close(self, seconds: float) -> None:
        """Write the lines that wait for some seconds at most, and end the thread.

        If the reader does not read in this time, the file descriptor is redirected to
        the null device: a crash message would block the process, too.
        """
        deadline = time.monotonic() + seconds
        self._is_closing = True
        self._bell.put(None)
        self._thread.join(seconds)
        left = max(0.0, deadline - time.monotonic())
        if self._thread.is_alive() or not _can_write(self._file, left):
            _redirect_to_null(self._file)

    def _run(self) -> None:
        while True:
            self._bell.get()
            is_last = self._is_closing
            lines, flushes = self._take()
            self._write(lines)
            for flush in flushes:
                flush.set()
            if is_last and not self._waiting:
                return

    def _take(self) -> tuple[list[bytes], list[threading.Event]]:
        """Return all that wait; a line about dropped ones stands at their place."""
        with self._lock:
            lines, flushes, dropped = self._waiting, self._flushes, self._dropped
            self._waiting, self._flushes, self._dropped = [], [], 0
            self._waiting_bytes = 0
        if dropped:
            notice = self._notice(dropped)
            lines.append(f"{notice}\n".encode(self._encoding, "backslashreplace"))
        return lines, flushes

    def _write(self, lines: list[bytes]) -> None:
        """Write lines in one piece.

        After each call the thread waits for its turn beside the event loop.
        """
        rest = memoryview(b"".join(lines))
        try:
            while rest:
                rest = rest[_write_some(self._file, rest) :]
        except OSError:
            self._lost.fail(_lines_in(len(rest), lines))


def _write_some(file: int, data: memoryview) -> int:
    """Write a part of `data`, and return its length; wait while that is impossible."""
    while True:
        try:
            return os.write(file, data)
        except BlockingIOError:
            # Another process that shares the file has made it non-blocking.
            _can_write(file, None)


def _can_write(file: int, seconds: float | None) -> bool:
    """Wait until a file can be written to; tell whether it can, or has an error."""
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def _lines_in(length: int, lines: list[bytes]) -> int:
    """Return how many of `lines` have a part in the last `length` bytes."""
    count = 0
    for line in reversed(lines):
        if length <= 0:
            break
        length -= len(line)
        count += 1
    return count


def _redirect_to_null(file: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, file)
    os.close(null)


def drop_unwritten_output() -> None:
    """Drop output that standard output and standard error cannot write.

    Python flushes both when it exits, and exits with 120 if that fails. Call this
    last: a stream that cannot be flushed now is redirected to the null device.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is None or stream.closed:
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            _redirect_to_null(stream.fileno())
