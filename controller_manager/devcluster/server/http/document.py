"""Handlers of paths that are no resources."""

from collections.abc import Callable
from typing import Protocol

from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.devcluster.scheme.statuses import method_not_allowed
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

    def __init__(self, media_type: str, make: Callable[[], bytes]) -> None:
        self._headers = {"content-type": media_type}
        self._make = make

    def body_limit(self, user: User) -> int:
        """Return 0: requests have bodies of the usual size, if any."""
        del user
        return 0

    async def answer(self, request: Request, user: User) -> Response:
        """Answer a request; raises Refusal 405 for another method than GET."""
        del user
        if request.method != "GET":
            raise method_not_allowed()
        return Response(200, self._headers, self._make())
