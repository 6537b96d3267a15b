"""The bytes of answers on connections that stay open."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from controller_manager.client.transport import Response

_LINES: Final = {
    each.value: f"HTTP/1.1 {each.value} {each.phrase}" for each in HTTPStatus
}
_WITHOUT_BODY: Final = frozenset((HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED))


class HeaderError(Exception):
    """A header of an answer has a line feed, so it would become several."""


def head_of(status: int, headers: Mapping[str, str]) -> bytes:
    """Return the first line and the headers of an answer; raises HeaderError."""
    lines = [_LINES.get(status) or f"HTTP/1.1 {status} "]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join((*lines, "", ""))
    if head.count("\n") > len(lines) + 1 or head.count("\r") > len(lines) + 1:
        raise HeaderError
    return head.encode()


def whole_answer(answer: Response, common: Mapping[str, str]) -> bytes:
    """Return all bytes of an answer; `common` are headers of each one.

    Raises HeaderError.
    """
    headers = {**common, **answer.headers}
    if answer.status in _WITHOUT_BODY:
        return head_of(answer.status, headers)
    headers["content-length"] = str(len(answer.body))
    return head_of(answer.status, headers) + answer.body
