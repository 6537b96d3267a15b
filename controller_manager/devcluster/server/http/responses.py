"""Answers with a JSON body."""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.transport import Request, Response
from controller_manager.devcluster.server.apimachinery.statuses import Refusal
from controller_manager.devcluster.server.http.negotiation import header
from controller_manager.devcluster.server.rest.kind import Kind
from controller_manager.devcluster.server.storage.storage import Stored

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
    status: int, stored: Stored, unknown: list[str], validation: str
) -> Response:
    """Return the answer to a write, with a warning of the `unknown` fields.

    `validation` is the parameter ``fieldValidation`` of the request.
    """
    answer = Response(status, JSON_HEADERS, stored.encoded)
    if validation != "Warn":
        return answer
    return with_warnings(answer, [f'unknown field "{name}"' for name in unknown])


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
