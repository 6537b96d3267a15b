"""Faults between a client and the API server of a cluster."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final, Unpack

from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver.responses import (
    TEXT_HEADERS,
    media_type_of,
    refused,
)
from controller_manager.devcluster.apiserver.watching import frame_of
from controller_manager.devcluster.http_server import (
    Answer,
    Answering,
    ConnectionCutError,
    Interceptor,
)
from controller_manager.devcluster.scheme.query import is_true
from controller_manager.devcluster.scheme.statuses import Refusal, conflict, expired

from .fault_layer import Ending, Fault, gone_event
from .requests import RequestFilter, Which, attributes_of_request, make_filter
from .running_cluster import RunningCluster
from .thread import ClusterThread


class FaultControl:
    """Changes the faults of a cluster; its methods may be called in any thread."""

    def __init__(
        self, thread: ClusterThread[RunningCluster], running: RunningCluster
    ) -> None:
        self._thread = thread
        self._running = running

    @property
    def version(self) -> int:
        """The latest resourceVersion."""
        return self._running.version

    def add(self, fault: Fault) -> Fault:
        """Apply a fault to requests from now on, and return it."""
        self._thread.call(lambda: self._running.faults.add(fault))
        return fault

    def clear(self) -> None:
        """Remove all faults, and listen if the server does not; raises ServingError."""
        self._thread.call(self._running.faults.clear)
        self.listen_again()

    def end_watches(self, which: RequestFilter, ending: Ending) -> int:
        """End the open watches that are selected; return their number."""
        return self._thread.call(lambda: self._running.end_watches(which, ending))

    def stop_listening(self) -> None:
        """Cut all connections and refuse new ones."""
        self._thread.run(self._running.stop_listening()).result()

    def listen_again(self, after: float = 0.0) -> None:
        """Accept connections again, at once or some seconds later.

        Raises ServingError if the port cannot be used any more.
        """
        restart = self._thread.run(self._listen_again(after))
        if not after:
            restart.result()

    async def _listen_again(self, after: float) -> None:
        await self.sleep(after)
        await self._running.listen_again()

    async def sleep(self, seconds: float) -> None:
        """Wait some seconds of the clients' clock, in the thread of the cluster."""
        await asyncio.sleep(seconds * self._running.time_factor)


_MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version "
    "and try again"
)
_LIST_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter."
)
_TOO_MANY: Final = b"Too many requests, please try again later.\n"
_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Faults:
    """Faults between the clients of a cluster and its API server.

    They meet all clients on the network: the controller under test, kubectl, the test
    itself. They do not meet the controllers and nodes of the cluster. Each method may
    be called in any thread, and returns without waiting.

    A fault of requests lasts until it has met `times` requests, until it is removed, or
    until :meth:`clear`; the keywords of `which` select the requests, see
    :class:`~controller_manager.devcluster.testing.requests.Which`. Several faults
    apply in the order in which they were made. Seconds are those of the clients' clock,
    also if the time of the cluster is faster.
    """

    def __init__(self, server: FaultControl) -> None:
        self._server = server

    # Faults of requests

    def latency(
        self, seconds: float, *, times: int | None = None, **which: Unpack[Which]
    ) -> Fault:
        """Answer only after some seconds."""

        async def act(request: Request, answer: Answering) -> Answer:
            await self._server.sleep(seconds)
            return await answer(request)

        return self._add(act, times, which)

    def too_many_requests(
        self, retry_after: int = 1, *, times: int | None = None, **which: Unpack[Which]
    ) -> Fault:
        """Refuse with 429 and the header Retry-After, in seconds.

        Upstream: flow control, apiserver/pkg/server/filters/priority-and-fairness.go.
        """
        headers = {**TEXT_HEADERS, "retry-after": str(retry_after)}

        async def act(request: Request, answer: Answering) -> Answer:
            del request, answer
            return Response(HTTPStatus.TOO_MANY_REQUESTS, headers, _TOO_MANY)

        return self._add(act, times, which)

    def conflict(self, *, times: int | None = None, **which: Unpack[Which]) -> Fault:
        """Refuse with 409, as if another client had just written the object.

        It meets updates and patches, unless `verbs` says otherwise.
        """

        async def act(request: Request, answer: Answering) -> Answer:
            del answer
            about = attributes_of_request(request)
            group, resource, name = (
                (about.group, about.resource, about.name) if about else ("", "", "")
            )
            return refused(conflict(group, resource, name, _MODIFIED))

        chosen = make_filter(which, ("update", "patch"))
        return self._server.add(Fault(chosen, act, times))

    def expired(self, *, times: int | None = None, **which: Unpack[Which]) -> Fault:
        """Refuse with 410 to continue from a resourceVersion or a continue token.

        It meets lists and watches that name one, so a new list of the client succeeds.
        A watch gets the 410 as an event, as from a real server.
        """

        async def act(request: Request, answer: Answering) -> Answer:
            del answer
            oldest = self._server.version
            if is_true(dict(request.query), "watch"):
                frame = frame_of(media_type_of(request))
                event = gone_event(request, oldest, frame)
                return Response(200, {"content-type": frame.content_type}, event)
            return refused(expired(_LIST_EXPIRED))

        chosen = make_filter(which, ("list", "watch"), goes_on=True)
        return self._server.add(Fault(chosen, act, times))

    def refuse(
        self,
        code: int,
        message: str = "refused by a fault of the test",
        reason: str = "",
        *,
        times: int | None = None,
        **which: Unpack[Which],
    ) -> Fault:
        """Refuse with a Status of this code; the reason is that of the code."""
        refusal = Refusal(code, reason or _REASONS.get(code, ""), message)

        async def act(request: Request, answer: Answering) -> Answer:
            del request, answer
            return refused(refusal)

        return self._add(act, times, which)

    def cut(
        self,
        *,
        carried_out: bool = False,
        times: int | None = None,
        **which: Unpack[Which],
    ) -> Fault:
        """Cut the connection instead of an answer.

        The client cannot know whether the request was `carried_out`.
        """

        async def act(request: Request, answer: Answering) -> Answer:
            if carried_out and not isinstance(found := await answer(request), Response):
                await found.close()
            raise ConnectionCutError

        return self._add(act, times, which)

    def clear(self) -> None:
        """Remove all faults of requests, and end an outage."""
        self._server.clear()

    # Faults of watches

    def drop_watches(self, *, cut: bool = True, **which: Unpack[Which]) -> int:
        """End the open watches, and return their number; clients may watch again.

        With ``cut=False`` they end in good order, as after their timeout.
        """
        return self._server.end_watches(
            make_filter(which), Ending.CUT if cut else Ending.CLOSED
        )

    def expire_watches(self, **which: Unpack[Which]) -> int:
        """End the open watches with an error 410, and return their number.

        The history of their resources is gone: no client can continue from an earlier
        resourceVersion, and all clients must list again.
        """
        return self._server.end_watches(make_filter(which), Ending.EXPIRED)

    def silence_watches(self, **which: Unpack[Which]) -> int:
        """Let no more event through open watches, and return their number.

        Their connections stay open, as behind a broken network.
        """
        return self._server.end_watches(make_filter(which), Ending.SILENT)

    # Faults of the server

    def restart(self, downtime: float = 0.0) -> None:
        """Restart the API server; it is unreachable for some seconds.

        Connections are cut. The objects stay, and the history of watches is gone, as
        after a restart of a real server: a watch from an earlier resourceVersion gets
        410. With a `downtime` this returns while the server is unreachable.
        """
        self._server.stop_listening()
        self._server.listen_again(downtime)

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Let the API server be unreachable while entered; it restarts at the end."""
        self._server.stop_listening()
        try:
            yield
        finally:
            self._server.listen_again()

    def _add(self, act: Interceptor, times: int | None, which: Which) -> Fault:
        return self._server.add(Fault(make_filter(which), act, times))
