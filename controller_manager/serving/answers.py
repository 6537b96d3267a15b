"""Answers of the API machinery: objects as JSON, and Status objects."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

COMMON_HEADERS: Final = {
    "Cache-Control": "no-cache, private",
    "X-Content-Type-Options": "nosniff",
}
"""The headers of every answer."""

_INTERACTIVE_CLIENTS: Final = ("curl", "Wget", "Mozilla/5.0")


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
