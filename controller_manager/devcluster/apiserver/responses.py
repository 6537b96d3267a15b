"""Answers: JSON with headers and warnings, objects in the form that a client accepts.

Upstream: handlers/response.go and handlers/responsewriters of k8s.io/apiserver.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, Protocol

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import Clock
from controller_manager.devcluster.inmemory import StreamingResponse, whole
from controller_manager.devcluster.scheme import protobuf
from controller_manager.devcluster.scheme.decoding import (
    LARGE,
    YAML_ERRORS,
    encode_yaml,
)
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.scheme.protobuf_decoder import ProtobufError
from controller_manager.devcluster.scheme.statuses import (
    Refusal,
    bad_request,
    not_acceptable,
    shown,
)
from controller_manager.devcluster.storage import Stored

from .kind import Kind, in_version
from .negotiation import JSON_TYPE, PROTOBUF_TYPE, YAML_TYPE, Form, accepted, header
from .request_info import Target
from .strategy import NAME

# Answers that turn a connection over to another protocol: SPDY or websockets.

SPDY: Final = "SPDY/3.1"
WEBSOCKET: Final = "websocket"


class Connection(Protocol):
    """A connection to a client after its upgrade."""

    async def receive(self) -> bytes:
        """Return the next bytes, or message of a websocket; empty at the end."""

    async def send(self, data: bytes) -> None:
        """Send bytes, as one message of a websocket.

        Raises ConnectionError if the client is gone.
        """


Serve = Callable[[Connection], Awaitable[None]]
"""Speaks a protocol until one side ends the connection."""


class Upgrade(StreamingResponse):
    """An answer after which `serve` has the connection.

    `protocol` is SPDY or that of websockets. In memory, it is an answer without a body.
    """

    def __init__(self, protocol: str, subprotocol: str, serve: Serve) -> None:
        super().__init__(whole(b""), {}, 101)
        self.protocol = protocol
        self.subprotocol = subprotocol
        self.serve = serve


def negotiated(
    request: Request, spdy: Iterable[str], websocket: Iterable[str]
) -> tuple[str, str]:
    """Return the protocol of an upgrade, and the client's first known subprotocol.

    `spdy` and `websocket` are the subprotocols that the server knows. Raises Refusal.
    """
    wanted = header(request.headers, "upgrade").lower()
    for protocol, known, name in (
        (SPDY, spdy, "x-stream-protocol-version"),
        (WEBSOCKET, websocket, "sec-websocket-protocol"),
    ):
        if wanted != protocol.lower():
            continue
        given = header(request.headers, name).replace("\n", ",").split(",")
        for each in map(str.strip, given):
            if each in {*known}:
                return protocol, each
        shown = ", ".join(known)
        raise bad_request(f"unable to upgrade: {name} must be one of: {shown}")
    raise bad_request("Upgrade request required")


# Answers: JSON with headers and warnings, and the encoding that a client accepts.

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
    for problem in problems:
        first, *lines = problem.splitlines() or [""]
        yield from map(str.strip, lines) if first == YAML_ERRORS else (problem,)


def encode_list(kind: Kind, page: list[Stored], metadata: JSON) -> bytes:
    """Return the list of a kind.

    Its items have no kind and apiVersion, those of a custom resource have them. These
    two come first in a stored object, so they can be cut off the encoded object.
    """
    prefix = len(
        b'"kind":"%s","apiVersion":"%s",'
        % (kind.kind.encode(), kind.api_version.encode())
    )
    if kind.is_custom:
        prefix = 0
    items = b",".join(b"{" + stored.encoded[prefix + 1 :] for stored in page)
    head = msgspec.json.encode(
        {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata}
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


# Objects and lists in the form that a client accepts (handlers/response.go).

_INCLUDED: Final = ("", "Metadata", "Object", "None")
_SUCCESS: Final = (200, 201)


class Renderer:
    """Encodes stored objects; the clock is for their ages."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def encoded(self, target: Target, stored: Stored, form: Form) -> bytes:
        """Return one object in a form."""
        match form:
            case Form.METADATA | Form.METADATA_LIST:
                return msgspec.json.encode(partial(stored.obj))
            case Form.TABLE:
                return msgspec.json.encode(self._table_of(target, stored))
        return stored.encoded

    def event(
        self, target: Target, stored: Stored, form: Form, *, headers: bool
    ) -> bytes:
        """Return the object of a watch event; a table may lack its columns."""
        shown = in_version(target.kind, stored)
        if form is not Form.TABLE:
            return self.encoded(target, shown, form)
        body = self._table_of(target, shown)
        if not headers:
            body["columnDefinitions"] = None
        return msgspec.json.encode(body)

    def page(
        self, target: Target, page: list[Stored], metadata: JSON, form: Form
    ) -> Response:
        """Return a list in a form."""
        match form:
            case Form.TABLE:
                return json_response(200, self._table(target, page, metadata))
            case Form.METADATA_LIST:
                return json_response(
                    200,
                    {
                        "kind": "PartialObjectMetadataList",
                        "apiVersion": "meta.k8s.io/v1",
                        "metadata": metadata,
                        "items": [partial(stored.obj) for stored in page],
                    },
                )
        return Response(200, JSON_HEADERS, encode_list(target.kind, page, metadata))

    def rewritten(self, target: Target, answer: Response, form: Form) -> Response:
        """Return the answer to a write in a form; other values are copied unchanged."""
        if form is Form.FULL or answer.status not in _SUCCESS:
            return answer
        obj = msgspec.json.decode(answer.body)
        if obj.get("kind") != target.kind.kind:
            return answer
        body = self.encoded(target, Stored(obj, 0), form)
        return Response(answer.status, answer.headers, body)

    def _table_of(self, target: Target, stored: Stored) -> JSON:
        version = str(stored.obj["metadata"].get("resourceVersion", ""))
        return self._table(target, [stored], {"resourceVersion": version})

    def _table(self, target: Target, items: list[Stored], metadata: JSON) -> JSON:
        include = target.query.get("includeObject", "")
        if include not in _INCLUDED:
            raise bad_request(
                "Unable to convert to Table as requested: includeObject: Invalid "
                f"value: {shown(include)}: must be 'Metadata', 'Object', 'None', or "
                "empty"
            )
        return table(target.kind, items, self._clock.now(), include, metadata)


def wrong_form(target: Target, form: Form, *, is_list: bool) -> Refusal:
    """Return the refusal of an object as a list, or of a list as an object."""
    kind = target.kind
    package = kind.group.partition(".")[0] or "core"
    type_name = f"{package}.{kind.list_kind if is_list else kind.kind}"
    if kind.is_custom:
        type_name = f"unstructured.Unstructured{'List' if is_list else ''}"
    what = "a list" if is_list else "not a list"
    return not_acceptable(
        f"you requested {form.value}, but the requested object is {what} (*{type_name})"
    )


def table(
    kind: Kind, items: Iterable[Stored], now: datetime, include: str, metadata: JSON
) -> JSON:
    """Return objects as a Table; `include` selects the form of the object in each row.

    The values are ``None``, ``Object``, and for all others the metadata.
    """
    rows, conversion = [], kind.conversion
    for stored in kind.strategy.in_table_order(items):
        # The cells are about the stored form, whose fields have other names.
        obj = conversion.to_stored(stored.obj) if conversion else stored.obj
        row: JSON = {"cells": kind.strategy.cells(obj, now)}
        if include == "Object":
            row["object"] = stored.obj
        elif include != "None":
            row["object"] = partial(stored.obj)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": _definitions(kind),
        "rows": rows,
    }


def partial(obj: JSON) -> JSON:
    """Return the PartialObjectMetadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }


def _definitions(kind: Kind) -> list[JSON]:
    return [
        {
            "name": column.title,
            "type": column.type,
            "format": "name" if column == NAME else column.format,
            "description": column.description or f"{column.title} of the {kind.kind}.",
            "priority": column.priority,
        }
        for column in kind.strategy.table_columns()
    ]
