"""Passes on what libraries log with Python's `logging`.

Without a handler Python prints their warnings to standard error, from the event loop,
and in a format of its own: a log that is not read would block the daemon there.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from .logs import Logger


class _Forwarding(logging.Handler):
    """Logs warnings and errors of libraries as lines of the daemon."""

    def __init__(self, logger: Logger) -> None:
        super().__init__(logging.WARNING)
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Log one message; a message that cannot be formatted is logged as it is."""
        try:
            what = record.getMessage()
        except (TypeError, ValueError):
            what = str(record.msg)
        error = record.exc_info[1] if record.exc_info else None
        write = (
            self._logger.error
            if record.levelno >= logging.ERROR
            else self._logger.warning
        )
        write("Message of a library", library=record.name, what=what, exc_info=error)


@contextmanager
def library_logs(logger: Logger) -> Iterator[None]:
    """Write warnings and errors of libraries to `logger` while entered."""
    handler = _Forwarding(logger)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
