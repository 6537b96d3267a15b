"""Logs the errors that the event loop reports, such as failures of forgotten tasks."""

import asyncio
from typing import Any, Final

from .logs import Logger

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
