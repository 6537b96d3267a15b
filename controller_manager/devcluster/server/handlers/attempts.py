"""Attempts a write until admission has all the answers that it waits for."""

import asyncio
from collections.abc import Callable
from typing import Final

from controller_manager.client.transport import Response
from controller_manager.devcluster.server.apimachinery.statuses import Refusal
from controller_manager.devcluster.server.http.responses import refused, with_warnings
from controller_manager.devcluster.server.rest.admission import Pending, Submission

_LONGEST: Final = 34
"""Seconds that a request to write may take (requestTimeoutUpperBound)."""


async def attempted(
    submission: Submission, attempt: Callable[[], Response]
) -> Response:
    """Return the answer of the first attempt that admission does not delay.

    The answer has the warnings of admission, also if it is a refusal. A request that
    takes longer than 34 s gets a 504 (endpoints/handlers). Raises Refusal.
    """
    try:
        answer = await _answer(submission, attempt)
    except Refusal as refusal:
        if not submission.warnings:
            raise
        answer = refused(refusal)
    return with_warnings(answer, submission.warnings)


async def _answer(submission: Submission, attempt: Callable[[], Response]) -> Response:
    try:
        return attempt()
    except Pending as pending:
        waiting = pending
    try:
        async with asyncio.timeout(_LONGEST):
            while True:
                await waiting.wait()
                submission.warnings.clear()
                try:
                    return attempt()
                except Pending as pending:
                    waiting = pending
    except TimeoutError:
        raise _too_late() from None


def _too_late() -> Refusal:
    message = (
        "Timeout: request did not complete within requested timeout - context "
        "deadline exceeded"
    )
    return Refusal(504, "Timeout", message, {})
