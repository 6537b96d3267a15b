"""One fault of requests, and its duration."""

from types import TracebackType
from typing import Self

from controller_manager.client.rest.transport import Request
from controller_manager.devcluster.http_server import Answer, Answering, Interceptor

from .request_filter import RequestFilter


class Fault:
    """Meets the requests that it selects, until it is used up or removed.

    As a context manager it is removed when it is left.
    """

    def __init__(
        self, which: RequestFilter, act: Interceptor, times: int | None = None
    ) -> None:
        """Take the filter, the effect, and the most requests (`None`: all)."""
        self._which = which
        self._act = act
        self._left = times
        self.count = 0
        """The number of requests that it has met."""

    @property
    def is_active(self) -> bool:
        """True if it meets the next selected request."""
        return self._left is None or self._left > 0

    def remove(self) -> None:
        """Meet no more requests."""
        self._left = 0

    def __enter__(self) -> Self:
        """Return the fault, which has begun already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove it."""
        self.remove()

    async def intercept(self, request: Request, answer: Answering) -> Answer:
        """Answer a request; one that is not selected is passed on."""
        if not self.is_active or not self._which.matches(request):
            return await answer(request)
        self.count += 1
        if self._left is not None:
            self._left -= 1
        return await self._act(request, answer)
