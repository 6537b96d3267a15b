"""Failures of tasks that are not awaited are logged once, in the format of the log."""

import asyncio
import io

from controller_manager.observability.defects import log_loop_errors
from controller_manager.observability.logs import make_logger


async def test_an_unhandled_error_of_the_loop_is_logged() -> None:
    """An error about a closed connection is logged only with -v=4."""
    logs = []
    for verbosity in (0, 4):
        stream = io.StringIO()
        log_loop_errors(make_logger(verbosity=verbosity, stream=stream))
        loop = asyncio.get_running_loop()
        cut = RuntimeError("unable to perform operation; the handler is closed")
        for error in (cut, ValueError("defect")):
            loop.call_exception_handler({"message": "Failed", "exception": error})
        lines = stream.getvalue().splitlines()
        logs.append([line.partition("] ")[2] for line in lines if "] " in line])
    assert [[line.split('"')[1] for line in log] for log in logs] == [
        ["Unhandled error in the event loop"],
        ["Connection was closed", "Unhandled error in the event loop"],
    ]
