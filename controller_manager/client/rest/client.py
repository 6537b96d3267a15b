"""The client: typed verbs (get, list, watch, create, ...) over a transport."""

from typing import TYPE_CHECKING

from controller_manager.clock import Clock
from controller_manager.options.config import WRITE_TIMEOUT

from .limits import RequestLimiter
from .options import (
    BUSY_IDLE_TIMEOUT,
    IDLE_TIMEOUT,
    DeleteOptions,
    ListOptions,
    PatchType,
    PropagationPolicy,
    WatchOptions,
)
from .reader import Page, Reader
from .request import (
    LIST_TIMEOUT,
    NoRequestMetrics,
    RequestMetrics,
    RESTClient,
    WarningHeaders,
)
from .server_clock import ServerClock
from .transport import Transport
from .writer import WriteHook, Writer, ignore_write

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient

# The types of the arguments and results come from here, too.
__all__ = [
    "BUSY_IDLE_TIMEOUT",
    "IDLE_TIMEOUT",
    "LIST_TIMEOUT",
    "Client",
    "DeleteOptions",
    "ListOptions",
    "NoRequestMetrics",
    "Page",
    "PatchType",
    "PropagationPolicy",
    "RequestMetrics",
    "WatchOptions",
    "WriteHook",
    "ignore_write",
]


class Client(Reader, Writer):
    """Verbs on resources, as one identity with its own rate limit.

    Every method raises an `APIError` by reason when the server refuses, a
    `TransportError` when there is no answer (a write may have been applied or
    not, except with `NotSent`), and a `ProtocolError` when the answer cannot be
    read. When the server asks for a retry (429 or 5xx with Retry-After), the client
    retries up to ten times. When the connection breaks, the client retries a GET
    once.
    """

    def __init__(  # noqa: PLR0913 - one for each part that a caller may replace
        self,
        transport: Transport,
        clock: Clock,
        limiter: RequestLimiter | None = None,
        metrics: RequestMetrics | None = None,
        warnings: WarningHeaders | None = None,
        server_clock: ServerClock | None = None,
        *,
        in_flight: int = 0,
        write_timeout: float = WRITE_TIMEOUT,
        on_write: WriteHook = ignore_write,
        limits_watches: bool = False,
    ) -> None:
        """Take the transport; without a limiter the rate is not limited.

        At most `in_flight` requests are in flight at a time, not counting watches; 0
        means no limit. The keys of syncs share them, see `Slots`. A write may take
        `write_timeout` seconds from the moment at which it is sent. `on_write` is
        called with each object that was created or changed, as stored. The rate limit
        holds for watches only with `limits_watches`; client-go's never does.
        """
        rest = RESTClient(
            transport,
            clock,
            limiter,
            metrics,
            warnings,
            server_clock,
            in_flight=in_flight,
            write_timeout=write_timeout,
            limits_watches=limits_watches,
        )
        Reader.__init__(self, rest)
        Writer.__init__(self, rest, on_write)

    def api_client(self) -> "ApiClient":
        """Return an ApiClient of kubernetes_asyncio whose requests this client sends.

        They have its identity, its limits, its fence and its metrics. The first call
        imports kubernetes_asyncio: 40 MB, and half a second in which nothing else runs.
        Call it in a running event loop. See `client.rest.api_client` for its errors.
        """
        from .api_client import (  # noqa: PLC0415 - 40 MB
            ClientOfController,
        )

        return ClientOfController(self._rest, self._on_write)
