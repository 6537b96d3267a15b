"""Where log lines go: straight into a stream, or through a queue and a thread.

A pipe whose reader lives but does not read blocks its writers. The daemon
logs from its event loop, so its lines go through a bounded queue to a thread of their
own. Programs that end soon, and tests, write straight into the stream: their lines are
there when the call returns.
"""

import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from logging import LogRecord
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue
from typing import Final, TextIO

MOST_WAITING: Final = 10_000
"""The most lines that wait for the reader of a log."""


class StreamOutput(logging.StreamHandler[TextIO]):
    """Writes each line into a stream at once, and waits for the reader if need be."""

    failed = 0
    """Lines that could not be written: a broken pipe, a full disk, no stream."""

    dropped: Final = 0
    """Lines for which there was no room: none."""

    def handleError(self, record: LogRecord) -> None:  # noqa: ARG002, N802 - logging's
        """Count a line that could not be written."""
        self.failed += 1

    def end(self, seconds: float) -> None:
        """Leave the stream open: others may write into it."""


class QueuedOutput(QueueHandler):
    """Queues lines for a thread that writes them; nothing waits for the reader.

    While the reader does not read, up to `MOST_WAITING` lines wait. From then on
    lines are dropped until none waits. One line then stands in their place and says
    how many they were.
    """

    def __init__(self, stream: TextIO, notice: Callable[[int], str]) -> None:
        """Write to a stream with a descriptor; `notice` tells of dropped lines."""
        self._lines: SimpleQueue[LogRecord] = SimpleQueue()
        """A finalizer may log while its thread is in the queue, as in the handler."""
        super().__init__(self._lines)
        self._notice = notice
        self._file = _File(stream)
        listener = QueueListener(self._lines, self._file)
        listener.start()
        # A daemon thread: one that is blocked must not keep the process from its end.
        self._ending = threading.Thread(target=listener.stop, daemon=True)
        self._missing = 0
        self.dropped = 0

    @property
    def failed(self) -> int:
        """Lines that could not be written: a broken pipe, a full disk."""
        return self._file.failed

    def prepare(self, record: LogRecord) -> LogRecord:
        """Return the record: its line is rendered."""
        return record

    def enqueue(self, record: LogRecord) -> None:
        """Queue a line; drop it if too many wait. The handler's lock is held."""
        if self._missing and self._lines.empty():
            self._tell()
        if self._missing or self._lines.qsize() >= MOST_WAITING:
            self._missing += 1
            self.dropped += 1
        else:
            self._lines.put(record)

    def _tell(self) -> None:
        """Put a line in the place of the dropped ones."""
        missing, self._missing = self._missing, 0
        self._lines.put(record_of(self._notice(missing)))

    def end(self, seconds: float) -> None:
        """Write the lines that wait for some seconds at most, and end the thread.

        If the reader does not read in this time, the file descriptor is redirected to
        the null device: a crash message would block the process, too.
        """
        deadline = time.monotonic() + seconds
        self.acquire()
        if self._missing:
            self._tell()
        self.release()
        if self._ending.ident is None:  # another thread may have called this, too
            self._ending.start()
        self._ending.join(seconds)
        left = max(0.0, deadline - time.monotonic())
        if self._ending.is_alive() or not _can_write(self._file.number, left):
            _redirect_to_null(self._file.number)


class _File(logging.Handler):
    """Writes into the file of a stream, without the stream.

    A thread that is blocked in a buffered stream holds the stream's lock, and the
    interpreter needs it to exit.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream  # which closes the file if nothing has it
        self.number = stream.fileno()
        self.failed = 0

    def handle(self, record: LogRecord) -> bool:
        # Not `emit`, which is called with a lock that Python takes when it exits.
        rest = f"{record.msg}\n".encode(self._stream.encoding, "backslashreplace")
        while rest:
            try:
                rest = rest[os.write(self.number, rest) :]
            except BlockingIOError:
                # Another process that shares the file has made it non-blocking.
                _can_write(self.number, None)
            except OSError:
                self.failed += 1
                break
        return True


def record_of(line: str) -> LogRecord:
    """Return a rendered line for an output."""
    return LogRecord("", logging.INFO, "", 0, line, None, None)


def _can_write(file: int, seconds: float | None) -> bool:
    """Wait until a file can be written to; tell whether it can, or has an error."""
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


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
