"""Answers of the API machinery: objects as JSON, and Status objects.

No answer has the header ``Server``, as from upstream: the HTTP library would name
itself and the version of Python there.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from aiohttp import hdrs, web

COMMON_HEADERS: Final = {
    "Cache-Control": "no-cache, private",
    "X-Content-Type-Options": "nosniff",
}
"""The headers of every answer."""

_INTERACTIVE_CLIENTS: Final = ("curl", "Wget", "Mozilla/5.0")


async def leave_out_server(_: web.Request, answer: web.StreamResponse) -> None:
    """Remove ``Server`` from an answer whose headers are complete."""
    answer.headers.popall(hdrs.SERVER, None)


class Streamed(web.StreamResponse):
    """An answer without ``Server`` that no application prepares."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.popall(hdrs.SERVER, None)


class Whole(Streamed, web.Response):
    """Such an answer whose body is known when it begins."""


def refusal(status: int) -> Whole:
    """Return an answer that says no more than its code, as Go's server does."""
    text = f"{status} {HTTPStatus(status).phrase}"
    answer = Whole(status=status, text=text)
    answer.force_close()
    return answer


def json_answer(
    request: web.Request, body: Mapping[str, Any], status: int = HTTPStatus.OK
) -> web.Response:
    """Return an object as JSON; as upstream, browsers and curl get it indented."""
    agent = request.headers.get("User-Agent", "")
    text = (
        json.dumps(body, indent=2)
        if agent.startswith(_INTERACTIVE_CLIENTS)
        else json.dumps(body, separators=(",", ":")) + "\n"
    )
    return web.Response(
        status=status, body=text.encode(), content_type="application/json"
    )


def status_answer(request: web.Request, code: HTTPStatus, message: str) -> web.Response:
    """Return a Status object that says why a request failed."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": code.phrase.replace(" ", ""),
        **({"details": {}} if code is HTTPStatus.FORBIDDEN else {}),
        "code": code.value,
    }
    return json_answer(request, body, code.value)
