"""The client builder, which makes the clients of the manager and of each controller.

Upstream: controller-manager's client builders. With
``--use-service-account-credentials`` each controller uses its own service account;
without it, all controllers use the manager's identity. Every controller has its own
rate limit.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final

from controller_manager.client.rest.request import ServerClock
from controller_manager.clock import Clock
from controller_manager.observability.connections import LookUpSeconds
from controller_manager.observability.logs import Logger
from controller_manager.options.config import ClientConfig, RateLimit
from controller_manager.version import NAME

from .identity.credentials import ConnectionCounts
from .identity.service_accounts import ServiceAccountToken, ServiceAccountTransport
from .leadership.fencing import FencedTransport, Ownership, PermanentOwnership
from .rest.client import (
    Client,
    NoRequestMetrics,
    RequestMetrics,
    WriteHook,
    ignore_write,
)
from .rest.limits import RequestLimiter
from .rest.request import WarningHeaders
from .rest.transport import Transport

IN_FLIGHT: Final = 64
"""The most requests of one client that are in flight at a time.

An API server stores the writes that come together with one write to its disk, so fewer
make a rollout slower; more need connections, and memory.
"""

_MONITORS: Final = 5
"""The rate limit of all monitors together is this many times that of a controller."""

_EXPLAINER_QPS: Final = 10
"""The requests of explanations in a second; a turn of them takes some seconds."""


@dataclass(frozen=True, slots=True)
class Connections:
    """The transports to the API servers; their creator closes them.

    `authentication`, `authorization` and `lease` are used beside the main loop, if
    there is a thread for that: they must be made there, and share nothing with the
    others.

    - `manager` presents the manager's identity.
    - `anonymous` connects to the same server without an identity, for tokens of
      service accounts; without it all controllers use the manager's identity.
    - `authentication` and `authorization` are for the reviews of the users who send
      requests to this process (``/metrics`` and so on).
    - `root_ca` has the authorities that the manager trusts, as PEM; empty: the
      system's.
    - `credential_expires_at` returns when the exec plugin's credential expires,
      `None` if that is not known.
    - `counts` returns what the credentials have counted, and `certificates` their
      client certificates as PEM, by the place where they were read.
    - `lease` presents the manager's identity, too, but serves only the election, so
      that no other request can delay a renewal.
    - `look_ups` measures how long look-ups of names take.
    - `of_controller` returns the transport of a controller, by its name; without it, a
      controller uses `manager` or its service account.
    - `clusters` has the connections to other clusters, by the names of these.
    """

    manager: Transport
    anonymous: Transport | None = None
    authentication: Transport | None = None
    authorization: Transport | None = None
    root_ca: str = ""
    credential_expires_at: Callable[[], datetime | None] = lambda: None
    lease: Transport | None = None
    counts: Callable[[], ConnectionCounts] = ConnectionCounts
    certificates: Callable[[], Mapping[str, bytes]] = dict
    look_ups: LookUpSeconds = field(default_factory=LookUpSeconds)
    of_controller: Callable[[str], Transport] | None = None
    clusters: Mapping[str, "Connections"] = field(default_factory=dict)


class ClientBuilder:
    """Makes the clients of the manager and of its controllers."""

    def __init__(
        self,
        connections: Connections,
        config: ClientConfig,
        *,
        clock: Clock,
        metrics: RequestMetrics,
        logger: Logger,
        metrics_of: Callable[[str], RequestMetrics] = lambda _: NoRequestMetrics(),
    ) -> None:
        """Take the metrics of this cluster, and those of another one by its host."""
        self._connections = connections
        self._metrics_of = metrics_of
        self._config = config
        self._clock = clock
        self._metrics = metrics
        self._logger = logger
        self._warnings = WarningHeaders(logger)
        self.server_clock = ServerClock(clock)
        self._accounts: dict[str, ServiceAccountTransport] = {}
        self._ownership: Ownership = PermanentOwnership()
        self._ownership_of: dict[str, Ownership] = {}
        self._fences: list[tuple[str, FencedTransport]] = []

    @property
    def clusters(self) -> frozenset[str]:
        """The names of the other clusters."""
        return frozenset(self._connections.clusters)

    def fence(self, ownership: Ownership, controllers: Iterable[str] = ()) -> None:
        """Restrict the writes of every fenced client to the keys of `ownership`.

        With `controllers` only the writes of the clients of these. Clients that exist
        already are restricted, too: the election needs clients before the ownership is
        known.
        """
        named = dict.fromkeys(controllers, ownership)
        if named:
            self._ownership_of |= named
        else:
            self._ownership = ownership
        for controller, fenced in self._fences:
            fenced.ownership = self._owned_by(controller)

    def _owned_by(self, controller: str) -> Ownership:
        return self._ownership_of.get(controller, self._ownership)

    def manager(self) -> Client:
        """Return a client of the manager itself, for reads.

        Its number of requests is not limited, because each informer has at most one
        request in flight. So a list that hangs delays no other list.
        """
        limit = self._config.limit
        clusters = {
            name: self._client(there.manager, limit, of_host=there.manager.host)
            for name, there in self._connections.clusters.items()
        }
        return self._client(self._connections.manager, limit, clusters=clusters)

    def monitors(self) -> Client:
        """Return a client of the manager for informers that no controller waits for.

        There is one for each custom resource, so their watches are limited: each takes
        a connection with a TLS handshake, at most a hundred a second by default.
        """
        limit = self._config.limit
        wider = RateLimit(limit.qps * _MONITORS, limit.burst * _MONITORS)
        return self._client(self._connections.manager, wider, limits_watches=True)

    def explainer(self) -> Client:
        """Return a client of the manager for explanations, which can wait.

        It sends few requests, so that those of the controllers come first.
        """
        limit = RateLimit(_EXPLAINER_QPS, _EXPLAINER_QPS)
        return self._client(self._connections.manager, limit, in_flight=2)

    def lease(self) -> Client:
        """Return a client of the manager without a rate limit, for the lease."""
        transport = self._connections.lease or self._connections.manager
        return self._client(transport, RateLimit(0, 0))

    def election(self) -> Client:
        """Return a client of the manager for what an election writes beside the lease.

        These are events and the candidacy. It has the lease's connection, because it is
        used in the same thread.
        """
        transport = self._connections.lease or self._connections.manager
        return self._client(transport, self._config.limit)

    def writer(self) -> Client:
        """Return a client of the manager whose writes are fenced."""
        transport = self._fenced(self._connections.manager)
        return self._client(transport, self._config.limit, IN_FLIGHT)

    def controller(
        self,
        name: str,
        service_account: str,
        qps_factor: int = 1,
        burst_factor: int = 1,
        on_write: WriteHook = ignore_write,
        *,
        in_flight: int = 0,
    ) -> Client:
        """Return the client of one controller, with its own limits.

        Without a `service_account` it has the manager's own identity. At most
        `in_flight` requests are in flight at a time, and never fewer than `IN_FLIGHT`.
        If its requests are slow, for example because of a webhook, other controllers
        are not delayed. The limits hold for each cluster.
        """
        transport = self._fenced(self._transport_of(service_account, name), name)
        limit = self._config.limit_of(name, qps_factor, burst_factor)
        most = max(in_flight, IN_FLIGHT)
        clusters = {}
        for cluster, there in self._connections.clusters.items():
            own = there.of_controller(name) if there.of_controller else there.manager
            fenced = self._fenced(own, name)
            clusters[cluster] = self._client(fenced, limit, most, of_host=own.host)
        return self._client(
            transport, limit, most, on_write, field_manager=name, clusters=clusters
        )

    async def close(self) -> None:
        """Stop the renewal of tokens."""
        for account in self._accounts.values():
            await account.close()

    def _fenced(self, transport: Transport, controller: str = "") -> Transport:
        fenced = FencedTransport(transport, self._owned_by(controller))
        self._fences.append((controller, fenced))
        return fenced

    def _transport_of(self, service_account: str, controller: str) -> Transport:
        if self._connections.of_controller is not None:
            return self._connections.of_controller(controller)
        anonymous = self._connections.anonymous
        if anonymous is None or not service_account:
            return self._connections.manager
        if service_account not in self._accounts:
            token = ServiceAccountToken(
                self.writer(), service_account, clock=self._clock, logger=self._logger
            )
            self._accounts[service_account] = ServiceAccountTransport(anonymous, token)
        return self._accounts[service_account]

    def _client(
        self,
        transport: Transport,
        limit: RateLimit,
        in_flight: int = 0,
        on_write: WriteHook = ignore_write,
        *,
        limits_watches: bool = False,
        field_manager: str = NAME,
        of_host: str = "",
        clusters: Mapping[str, Client] = MappingProxyType({}),
    ) -> Client:
        """Return a client; `of_host` is the host of another cluster."""
        limiter = RequestLimiter(limit.qps, limit.burst, self._clock)
        return Client(
            transport,
            self._clock,
            limiter,
            self._metrics_of(of_host) if of_host else self._metrics,
            self._warnings,
            None if of_host else self.server_clock,
            in_flight=in_flight,
            write_timeout=self._config.write_timeout,
            on_write=on_write,
            limits_watches=limits_watches,
            field_manager=field_manager,
            clusters=clusters,
        )
