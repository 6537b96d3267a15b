"""The pages below /debug/flags/: PUT /debug/flags/v sets the verbosity of the log.

Upstream: apiserver pkg/server/routes/flags.go and component-base logs.GlogSetter of
1.36, served with --profiling.
"""

import asyncio
import json
import re
from http import HTTPStatus
from typing import Final

from aiohttp import web

from controller_manager.observability.logs import Logger

INDEX: Final = """<html>
<head>
<title>/debug/flags/</title>
</head>
<body>
/debug/flags/<br>
<br>
flags:<br>
<table>
<tr>v<br>
</table>
<br>
full flags configurable<br>
</body>
</html>
"""
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MAX: Final = 2**31 - 1
_MIN: Final = -(2**31)


async def put_verbosity(
    request: web.Request, logger: Logger, patience: float
) -> web.Response:
    """Set the verbosity of all loggers to the number in the body of a PUT request.

    The answer is upstream's: 200, 400 for a body that is no number of 32 bits, and 406
    for another method. It is 408 if the body does not arrive within `patience` seconds;
    upstream waits for ever.
    """
    if request.method != "PUT":
        return _plain(HTTPStatus.NOT_ACCEPTABLE, "unsupported http method")
    try:
        async with asyncio.timeout(patience):
            given = (await request.read()).decode(errors="replace")
    except TimeoutError:
        late = f"the body did not arrive within {patience:g} s"
        return _plain(HTTPStatus.REQUEST_TIMEOUT, late)
    problem = _problem(given)
    if problem:
        quoted = json.dumps(given, ensure_ascii=False)
        return _plain(
            HTTPStatus.BAD_REQUEST,
            f"failed set klog.logging.verbosity {given}: "
            f"strconv.ParseInt: parsing {quoted}: {problem}",
        )
    logger.set_verbosity(int(given))
    return _plain(HTTPStatus.OK, f"successfully set klog.logging.verbosity to {given}")


def _problem(given: str) -> str:
    """Return Go's words for the fault of a number, empty for none."""
    if not _NUMBER.fullmatch(given):
        return "invalid syntax"
    # Python refuses to convert thousands of digits; Go calls them out of range.
    digits = given.lstrip("+-").lstrip("0")
    in_range = len(digits) <= len(str(_MAX)) and _MIN <= int(given) <= _MAX
    return "" if in_range else "value out of range"


def _plain(status: HTTPStatus, text: str) -> web.Response:
    headers = {"Content-Type": "text/plain"}
    return web.Response(status=status, body=f"{text}\n".encode(), headers=headers)
