"""The layer between the network and the API server that applies the faults."""

from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.http_server import Answer, Answering, Interceptor
from controller_manager.devcluster.server.http.upgrades import Upgrade

from .fault import Fault
from .open_watch import Ending, OpenWatch
from .request_filter import RequestFilter, attributes_of_request


class FaultLayer:
    """Applies faults to requests, in the order in which they were added.

    It knows every watch that is open. It is used in the thread of the cluster only.
    """

    def __init__(self) -> None:
        """Start without faults."""
        self._faults: list[Fault] = []
        self._watches: dict[OpenWatch, None] = {}

    def add(self, fault: Fault) -> None:
        """Apply a fault from now on."""
        self._faults.append(fault)

    def clear(self) -> None:
        """Remove all faults."""
        for fault in self._faults:
            fault.remove()
        self._faults.clear()

    def end_watches(self, which: RequestFilter, ending: Ending, oldest: int) -> int:
        """End the open watches that are selected; return their number.

        `oldest` is the oldest version that is not gone.
        """
        chosen = [each for each in self._watches if which.matches(each.request)]
        for watch in chosen:
            watch.end(ending, oldest)
        return len(chosen)

    async def __call__(self, request: Request, answer: Answering) -> Answer:
        """Answer a request through all faults; the first one is the outermost."""
        self._faults = [fault for fault in self._faults if fault.is_active]
        for fault in reversed(self._faults):
            answer = _through(fault.intercept, answer)
        found = await answer(request)
        if isinstance(found, Response | Upgrade) or _is_proxied(request):
            return found
        watch = OpenWatch(request, found, self._closed)
        self._watches[watch] = None
        return watch

    def _closed(self, watch: OpenWatch) -> None:
        self._watches.pop(watch, None)


def _is_proxied(request: Request) -> bool:
    """Tell whether a program beside the cluster answers a request."""
    attributes = attributes_of_request(request)
    return attributes is not None and attributes.subresource == "proxy"


def _through(fault: Interceptor, answer: Answering) -> Answering:
    async def through(request: Request) -> Answer:
        return await fault(request, answer)

    return through
