"""Logs and counts unexpected exceptions that do not end the process.

The event loop reports some itself, such as failures of forgotten tasks.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from .logs import Logger


def count_nowhere(_: str) -> None:
    """Count nothing."""


class Defects:
    """Logs and counts the unexpected exceptions of one component.

    Each of them is a defect of this program. An exception that ended the process would
    end all controllers, and the standby would meet the same object. Of equal ones the
    first, second, fourth, eighth and so on is logged: one pod template may cause an
    exception for each of 100,000 pods.
    """

    def __init__(
        self, logger: Logger, count: Callable[[str], None] = count_nowhere
    ) -> None:
        """`count` is called with the part of each exception."""
        self._logger = logger
        self._count = count
        self._occurrences: dict[tuple[str, ...], int] = {}

    def report(
        self, part: str, error: Exception, function: str = "", **details: object
    ) -> None:
        """Log and count an exception.

        `part` and `function` say where it was caught; there are few of them. `details`
        name the object that was handled.
        """
        self._count(part)
        kind = (part, function, type(error).__name__)
        occurrences = self._occurrences[kind] = self._occurrences.get(kind, 0) + 1
        if occurrences & (occurrences - 1):
            return  # no power of two
        self._logger.error(
            "Unexpected error",
            part=part,
            **({"function": function} if function else {}),
            **details,
            occurrences=occurrences,
            err=repr(error),
            exc_info=error,
        )


_CLOSED: Final = "the handler is closed"
"""Message of uvloop for a connection that was closed while data was being sent."""


def log_loop_errors(logger: Logger) -> None:
    """Log errors of the running event loop instead of printing them.

    Errors about a connection that has already been closed are logged with ``-v=4``.
    """

    def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        what = context.get("message", "")
        if isinstance(error, RuntimeError) and _CLOSED in str(error):
            logger.v(4).info("Connection was closed", what=what, err=str(error))
            return
        logger.error(
            "Unhandled error in the event loop",
            what=what,
            err=repr(error),
            exc_info=error,
        )

    asyncio.get_running_loop().set_exception_handler(handle)
