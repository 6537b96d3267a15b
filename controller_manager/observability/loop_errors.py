"""What an event loop has to say of failures that nobody awaits, as log lines."""

import asyncio
from typing import Any, Final

from controller_manager.observability.logs import Logger

_CLOSED: Final = "the handler is closed"
"""uvloop says so of a connection that was cut while data was on its way to it."""


def log_loop_errors(logger: Logger) -> None:
    """Have the running loop's complaints logged rather than printed.

    One about a connection that has been closed already shows with ``-v=4``.
    """

    def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        what = context.get("message", "")
        if isinstance(error, RuntimeError) and _CLOSED in str(error):
            logger.v(4).info("Connection was closed", what=what, err=str(error))
            return
        logger.error(
            "Not handled by anybody", what=what, err=repr(error), exc_info=error
        )

    asyncio.get_running_loop().set_exception_handler(handle)
