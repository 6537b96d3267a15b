"""Answers: JSON with headers and warnings, and the encoding that a client accepts.

The server makes all its answers as compact JSON. `presented` converts them at the end
to YAML, protobuf, or JSON for people (endpoints/handlers/negotiation).
"""

import asyncio
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.scheme import protobuf
from controller_manager.devcluster.scheme.bodies import LARGE, YAML_ERRORS, encode_yaml
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.devcluster.scheme.wire import ProtobufError
from controller_manager.devcluster.server.rest.kind import Kind
from controller_manager.devcluster.server.storage.storage import Stored

from .accepting import JSON_TYPE, PROTOBUF_TYPE, YAML_TYPE, accepted
from .negotiation import header

JSON_HEADERS: Final = {"content-type": "application/json"}
TEXT_HEADERS: Final = {"content-type": "text/plain; charset=utf-8"}


def json_response(status: int, body: JSON) -> Response:
    """Return an answer with a JSON body."""
    return Response(status, JSON_HEADERS, msgspec.json.encode(body))


def with_warnings(answer: Response, warnings: Sequence[str]) -> Response:
    """Return an answer with one more Warning header for each of the texts."""
    if not warnings:
        return answer
    texts = (each.replace("\\", "\\\\").replace('"', '\\"') for each in warnings)
    known = [answer.headers["warning"]] if "warning" in answer.headers else []
    value = ", ".join([*known, *(f'299 - "{text}"' for text in texts)])
    return Response(answer.status, {**answer.headers, "warning": value}, answer.body)


def json_or_404(body: JSON | None) -> Response:
    """Return an answer with a JSON body, 404 without one."""
    return no_such_path() if body is None else json_response(200, body)


def unless_known(answer: Response, request: Request) -> Response:
    """Return an answer with its ETag, or a 304 without a body if the client has it."""
    etag = f'"{hashlib.sha512(answer.body).hexdigest().upper()}"'
    headers = {**answer.headers, "etag": etag}
    known = header(request.headers, "if-none-match")
    if etag in (each.strip().removeprefix("W/") for each in known.split(",")):
        return Response(304, headers)
    return Response(answer.status, headers, answer.body)


def no_such_path() -> Response:
    """Return the answer to a path that the server does not serve."""
    return Response(404, TEXT_HEADERS, b"404 page not found\n")


def refused(refusal: Refusal) -> Response:
    """Return the answer for a refusal."""
    headers = dict(JSON_HEADERS)
    if refusal.retry_after is not None:
        headers["retry-after"] = str(refusal.retry_after)
    return Response(refusal.code, headers, msgspec.json.encode(refusal.status()))


def written(
    status: int, stored: Stored, problems: list[str], validation: str
) -> Response:
    """Return the answer to a write, with warnings of its `problems`.

    `validation` is the parameter ``fieldValidation`` of the request.
    """
    answer = Response(status, JSON_HEADERS, stored.encoded)
    if validation != "Warn":
        return answer
    return with_warnings(answer, list(_warnings(problems)))


def _warnings(problems: Iterable[str]) -> Iterator[str]:
    """Yield the warnings of problems: each error of YAML is one."""
    for problem in problems:
        first, *lines = problem.splitlines() or [""]
        yield from map(str.strip, lines) if first == YAML_ERRORS else (problem,)


def encode_list(kind: Kind, page: list[Stored], metadata: JSON) -> bytes:
    """Return the list of a kind.

    Its items have no kind and apiVersion. These two come first in a stored object, so
    they can be cut off the encoded object.
    """
    prefix = len(
        b'"kind":"%s","apiVersion":"%s",'
        % (kind.kind.encode(), kind.api_version.encode())
    )
    items = b",".join(b"{" + stored.encoded[prefix + 1 :] for stored in page)
    head = msgspec.json.encode(
        {
            "kind": kind.list_kind,
            "apiVersion": kind.api_version,
            "metadata": metadata,
        }
    )
    return head[:-1] + b',"items":[' + items + b"]}"


_PEOPLE: Final = ("curl", "Wget", "Mozilla/5.0")
"""Prefixes of the header User-Agent of tools for people, which get indented JSON."""

_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_ENCODED: Final = (YAML_TYPE, PROTOBUF_TYPE)


async def presented(answer: Response, request: Request) -> Response:
    """Return an answer as its client wants to see it; raises Refusal."""
    if answer.headers.get("content-type") != JSON_TYPE:
        return answer
    for has_protobuf in (True, False):
        media_type = media_type_of(request, has_protobuf=has_protobuf)
        if media_type not in _ENCODED:
            break
        body = await _in_turn(media_type, answer.body)
        if body is not None:
            headers = {**answer.headers, "content-type": media_type}
            return Response(answer.status, headers, body)
    if _is_for_people(request):
        body = msgspec.json.format(answer.body, indent=2)
        return Response(answer.status, answer.headers, body)
    return answer


def encoded(body: bytes, media_type: str) -> bytes:
    """Return JSON in the encoding of a media type that it has a form for."""
    if media_type == YAML_TYPE:
        return encode_yaml(body)
    return (_as_protobuf(body) if media_type == PROTOBUF_TYPE else None) or body


def media_type_of(request: Request, *, has_protobuf: bool = True) -> str:
    """Return the media type that a client wants, JSON if it accepts none."""
    accept = header(request.headers, "accept")
    if not any(each in accept for each in _ENCODED):
        return JSON_TYPE
    try:
        return accepted(accept, has_protobuf=has_protobuf).media_type
    except Refusal:
        return JSON_TYPE


async def _in_turn(media_type: str, body: bytes) -> bytes | None:
    """Return JSON in another encoding; `None` for a kind without protobuf messages.

    A large body is encoded in a thread beside the event loop.
    """
    encode = encode_yaml if media_type == YAML_TYPE else _as_protobuf
    return await asyncio.to_thread(encode, body) if len(body) >= LARGE else encode(body)


def _as_protobuf(body: bytes) -> bytes | None:
    """Return JSON as protobuf; `None` for a kind without messages.

    Raises Refusal 500 for an object that no message can hold.
    """
    try:
        return protobuf.encode(msgspec.json.decode(body), built_in())
    except ProtobufError as error:
        message = f"Internal error occurred: {error}"
        raise Refusal(500, "InternalError", message) from None


def _is_for_people(request: Request) -> bool:
    """Tell whether a client wants indented JSON; the query decides before the agent."""
    wanted = next((value for name, value in request.query if name == "pretty"), "")
    if wanted:
        return wanted in _TRUE
    return header(request.headers, "user-agent").startswith(_PEOPLE)
