"""Answers that are no streams, as aiohttp sends them."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import HttpVersion11, web

from controller_manager.client.transport import Response

_STATUSES: Final = {
    each.value: f"HTTP/1.1 {each.value} {each.phrase}"
    for each in HTTPStatus
    if each >= HTTPStatus.OK
    and each not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
}
"""The first lines of answers with a body."""


def quick_response(
    request: web.BaseRequest, answer: Response, common: Mapping[str, str]
) -> web.StreamResponse:
    """Return an answer that is no stream, with these headers of every answer."""
    status = _STATUSES.get(answer.status)
    is_usual = request.keep_alive and request.version == HttpVersion11
    if status is None or not is_usual or request.method == "HEAD":
        return usual_response(answer, common)
    headers = {**common, **answer.headers}
    lines = [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join((status, *lines, f"content-length: {len(answer.body)}"))
    if head.count("\n") > len(headers) + 1:
        return usual_response(answer, common)  # which refuses a header with a line feed
    return _Whole(head.encode() + b"\r\n\r\n" + answer.body)


def usual_response(answer: Response, common: Mapping[str, str]) -> web.Response:
    """Return any answer that is no stream."""
    return web.Response(
        status=answer.status, headers={**common, **answer.headers}, body=answer.body
    )


class _Whole(web.StreamResponse):
    """An answer whose bytes are known, on a connection that stays open.

    ``web.Response`` makes its bytes from parts, which takes several times as long.
    """

    def __init__(self, data: bytes) -> None:
        """Take the head and the body."""
        super().__init__()
        self._data = data

    @property
    def keep_alive(self) -> bool:
        """True: such an answer does not end its connection."""
        return True

    async def prepare(self, request: web.BaseRequest) -> None:
        """Send the answer."""
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError
        transport.write(self._data)

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: `prepare` has sent all."""
