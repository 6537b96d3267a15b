"""Handlers of paths that are no resources, such as those of JSON documents."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from controller_manager.api.json_objects import JSON
from controller_manager.client.transport import Request, Response
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.devcluster.server.apimachinery.statuses import (
    method_not_allowed,
)
from controller_manager.devcluster.server.http.responses import json_response
from controller_manager.devcluster.server.security.authentication import User


class PathHandler(Protocol):
    """Answers the requests of one path that is no resource."""

    def body_limit(self, user: User) -> int:
        """Return the most bytes that a user may send, 0 for the default."""
        ...

    async def answer(
        self, request: Request, user: User
    ) -> Response | StreamingResponse:
        """Answer a request that authorization allows; raises Refusal."""
        ...


class Document:
    """Answers each GET with a new document."""

    def __init__(self, make: Callable[[], JSON], media_type: str) -> None:
        """Take the function that makes the document, and its media type."""
        self._make = make
        self._media_type = media_type

    def body_limit(self, user: User) -> int:
        """Return 0: requests have bodies of the usual size, if any."""
        del user
        return 0

    async def answer(self, request: Request, user: User) -> Response:
        """Answer a request; raises Refusal 405 for another method than GET."""
        del user
        if request.method != "GET":
            raise method_not_allowed()
        answer = json_response(200, self._make())
        headers = {**answer.headers, "content-type": self._media_type}
        return replace(answer, headers=headers)
