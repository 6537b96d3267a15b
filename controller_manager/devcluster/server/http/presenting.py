"""Answers as YAML, or as JSON for people, where a client wants them so.

The server makes all its answers as compact JSON. This module converts them at the end
(endpoints/handlers/negotiation).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import yaml

from controller_manager.client.transport import Request, Response
from controller_manager.devcluster.schema import protobuf
from controller_manager.devcluster.schema.models import built_in
from controller_manager.devcluster.server.apimachinery.statuses import Refusal
from controller_manager.devcluster.server.http.accepting import (
    JSON_TYPE,
    PROTOBUF_TYPE,
    YAML_TYPE,
    accepted,
)
from controller_manager.devcluster.server.http.negotiation import header

_PEOPLE: Final = ("curl", "Wget", "Mozilla/5.0")
"""Prefixes of the header User-Agent of tools for people, which get indented JSON."""

_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_LARGE: Final = 64 * 1024
"""Bytes of JSON from which on a thread makes the YAML, because this is slow."""

_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


async def presented(answer: Response, request: Request) -> Response:
    """Return an answer as its client wants to see it; raises Refusal."""
    if answer.headers.get("content-type") != JSON_TYPE:
        return answer
    for has_protobuf in (True, False):
        media_type = media_type_of(request, has_protobuf=has_protobuf)
        encode = _ENCODERS.get(media_type)
        if encode is None:
            break
        body = await _encoded(encode, answer.body)
        if body is not None:
            headers = {**answer.headers, "content-type": media_type}
            return Response(answer.status, headers, body)
    if _is_for_people(request):
        body = msgspec.json.format(answer.body, indent=2)
        return Response(answer.status, answer.headers, body)
    return answer


def media_type_of(request: Request, *, has_protobuf: bool = True) -> str:
    """Return the media type that a client wants, JSON if it accepts none."""
    accept = header(request.headers, "accept")
    if not any(each in accept for each in _ENCODERS):
        return JSON_TYPE
    try:
        return accepted(accept, has_protobuf=has_protobuf).media_type
    except Refusal:
        return JSON_TYPE


async def _encoded(
    encode: Callable[[bytes], bytes | None], body: bytes
) -> bytes | None:
    """Return JSON in another encoding; a large body is encoded in a thread."""
    if len(body) < _LARGE:
        return encode(body)
    return await asyncio.to_thread(encode, body)


def _as_protobuf(body: bytes) -> bytes | None:
    """Return JSON as protobuf; `None` for a kind without messages.

    Raises Refusal 500 for an object that no message can hold.
    """
    try:
        return protobuf.encode(msgspec.json.decode(body), built_in())
    except protobuf.ProtobufError as error:
        message = f"Internal error occurred: {error}"
        raise Refusal(500, "InternalError", message) from None


def _dumped(body: bytes) -> bytes:
    text: str = yaml.dump(
        msgspec.json.decode(body),
        Dumper=_DUMPER,
        default_flow_style=False,
        allow_unicode=True,
        width=10**6,
    )
    return text.encode()


_ENCODERS: Final[Mapping[str, Callable[[bytes], bytes | None]]] = {
    YAML_TYPE: _dumped,
    PROTOBUF_TYPE: _as_protobuf,
}


def _is_for_people(request: Request) -> bool:
    """Tell whether a client wants indented JSON; the query decides before the agent."""
    wanted = next((value for name, value in request.query if name == "pretty"), "")
    if wanted:
        return wanted in _TRUE
    return header(request.headers, "user-agent").startswith(_PEOPLE)
