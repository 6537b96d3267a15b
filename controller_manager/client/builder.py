"""Who sends what: the manager itself, and each controller as itself.

Upstream: controller-manager's client builders. With
``--use-service-account-credentials`` a controller is a service account of its
own; without it, all are the manager. Every controller has its own rate limit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from controller_manager.client.client import (
    Client,
    RequestMetrics,
    WriteHook,
    ignore_write,
)
from controller_manager.client.fencing import FencedTransport
from controller_manager.client.ownership import Always, Ownership
from controller_manager.client.ratelimit import RequestLimiter
from controller_manager.client.server_clock import ServerClock
from controller_manager.client.service_accounts import (
    ServiceAccountToken,
    ServiceAccountTransport,
)
from controller_manager.client.transport import Transport
from controller_manager.client.warning_headers import WarningHeaders
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger
from controller_manager.options.config import ClientConfig, RateLimit

IN_FLIGHT: Final = 32
"""Requests that one client has under way at a time.

More of them make nothing faster: each new connection costs a TLS handshake and its
buffers. Against 256, scaling 1,000 pods down took 0.6 of the time, and the process
stayed 13 MB smaller.
"""


@dataclass(frozen=True, slots=True)
class Connections:
    """The ways to API servers, which stay their maker's to close.

    `manager` is the manager's own identity. `anonymous` leads to the same
    server without one, for service accounts; without it no controller has an
    identity of its own. `authentication` and `authorization` are whom to ask
    about those who scrape. `root_ca` is whom the manager trusts as the server,
    as PEM, empty for the system's authorities. `credential_ends_at` returns when
    a plugin's credential ends, `None` if there is no such end. `lease` is another
    way as the manager, for the lease alone, if there is one: what fills the other
    must not hold up a renewal.
    """

    manager: Transport
    anonymous: Transport | None = None
    authentication: Transport | None = None
    authorization: Transport | None = None
    root_ca: str = ""
    credential_ends_at: Callable[[], datetime | None] = lambda: None
    lease: Transport | None = None


class ClientBuilder:
    """Makes clients."""

    def __init__(
        self,
        connections: Connections,
        config: ClientConfig,
        *,
        clock: Clock,
        metrics: RequestMetrics,
        logger: Logger,
    ) -> None:
        """Take the connections and the limits."""
        self._connections = connections
        self._config = config
        self._clock = clock
        self._metrics = metrics
        self._logger = logger
        self._warnings = WarningHeaders(logger)
        self.server_clock = ServerClock(clock)
        self._accounts: dict[str, ServiceAccountTransport] = {}
        self._ownership: Ownership = Always()

    def fence(self, ownership: Ownership) -> None:
        """Let writes through only for the keys of `ownership`, for every client.

        It comes after the first clients: an election needs them itself.
        """
        self._ownership = ownership

    def seconds_left(self, key: str) -> float:
        """Return for how many seconds writes for `key` may go on; see `Ownership`."""
        return self._ownership.seconds_left(key)

    def manager(self) -> Client:
        """Return a client of the manager itself, for reads.

        Each informer has one request under way at most, so that a list that
        never ends holds up no other list.
        """
        return self._client(self._connections.manager, self._config.limit)

    def lease(self) -> Client:
        """Return a client of the manager that never waits, for the lease."""
        transport = self._connections.lease or self._connections.manager
        return self._client(transport, RateLimit(0, 0))

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
    ) -> Client:
        """Return a client of one controller, with limits of its own.

        What holds up its requests, such as a slow webhook, holds up no others.
        """
        transport = self._fenced(self._transport_of(service_account))
        limit = self._config.limit_of(name, qps_factor, burst_factor)
        return self._client(transport, limit, IN_FLIGHT, on_write)

    async def close(self) -> None:
        """Stop renewing tokens."""
        for account in self._accounts.values():
            await account.close()

    def _fenced(self, transport: Transport) -> Transport:
        return FencedTransport(transport, self)

    def _transport_of(self, service_account: str) -> Transport:
        anonymous = self._connections.anonymous
        if anonymous is None:
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
    ) -> Client:
        limiter = RequestLimiter(limit.qps, limit.burst, self._clock)
        return Client(
            transport,
            self._clock,
            limiter,
            self._metrics,
            self._warnings,
            self.server_clock,
            in_flight=in_flight,
            write_timeout=self._config.write_timeout,
            on_write=on_write,
        )
