"""Answers as YAML, or as JSON for people, where a client wants them so.

The server makes all its answers as compact JSON. This module converts them at the end
(endpoints/handlers/negotiation).
"""

import asyncio
from typing import Final

import msgspec
import yaml

from controller_manager.client.transport import Request, Response
from controller_manager.devcluster.server.accepting import (
    JSON_TYPE,
    YAML_TYPE,
    accepted,
)
from controller_manager.devcluster.server.negotiation import header
from controller_manager.devcluster.server.statuses import Refusal

_PEOPLE: Final = ("curl", "Wget", "Mozilla/5.0")
"""Prefixes of the header User-Agent of tools for people, which get indented JSON."""

_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_LARGE: Final = 64 * 1024
"""Bytes of JSON from which on a thread makes the YAML, because this is slow."""

_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


async def presented(answer: Response, request: Request) -> Response:
    """Return an answer in the format that its client wants."""
    if answer.headers.get("content-type") != JSON_TYPE:
        return answer
    if YAML_TYPE in header(request.headers, "accept") and _accepts_yaml(request):
        body = await _as_yaml(answer.body)
        headers = {**answer.headers, "content-type": YAML_TYPE}
        return Response(answer.status, headers, body)
    if _is_for_people(request):
        body = msgspec.json.format(answer.body, indent=2)
        return Response(answer.status, answer.headers, body)
    return answer


def _accepts_yaml(request: Request) -> bool:
    """Tell whether the client prefers YAML; an invalid header gets JSON."""
    try:
        return accepted(header(request.headers, "accept")).media_type == YAML_TYPE
    except Refusal:
        return False


async def _as_yaml(body: bytes) -> bytes:
    """Return JSON as YAML."""
    if len(body) < _LARGE:
        return _dumped(body)
    return await asyncio.to_thread(_dumped, body)


def _dumped(body: bytes) -> bytes:
    text: str = yaml.dump(
        msgspec.json.decode(body),
        Dumper=_DUMPER,
        default_flow_style=False,
        allow_unicode=True,
        width=10**6,
    )
    return text.encode()


def _is_for_people(request: Request) -> bool:
    """Tell whether a client wants indented JSON; the query decides before the agent."""
    wanted = next((value for name, value in request.query if name == "pretty"), "")
    if wanted:
        return wanted in _TRUE
    return header(request.headers, "user-agent").startswith(_PEOPLE)
