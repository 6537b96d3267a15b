"""The input of the checks: a config, and a cluster as the daemon's identity sees it."""

from msgspec import Struct

from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.request import ServerClock
from controller_manager.client.rest.transport import Transport
from controller_manager.clock import Clock
from controller_manager.manager.selection import starting_controllers
from controller_manager.options.config import Config
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.registry import Registry

_IN_FLIGHT = 16
"""The most requests at a time; reviews are many, and cheap for the server."""


class OwnPod(Struct, frozen=True):
    """The pod in which this process runs."""

    namespace: str
    name: str


class Examination:
    """The config, the clients of the daemon's identities, and derived values."""

    def __init__(
        self,
        build: Registry,
        config: Config,
        connections: Connections,
        clock: Clock,
        pod: OwnPod | None = None,
    ) -> None:
        """Take the daemon's connections; the caller closes them.

        `pod` is `None` outside of a pod.
        """
        self.build = build
        self.config = config
        self.root_ca = connections.root_ca
        self.host = connections.manager.host
        self.pod = pod
        self.clock = clock
        self.server_clock = ServerClock(clock)
        self.client = self._client(connections.manager)
        self.authentication = self._reviewer(connections.authentication)
        self.authorization = self._reviewer(connections.authorization)
        self.starting: tuple[Descriptor, ...] = starting_controllers(
            build, config, connections.root_ca
        )
        """The controllers that start with this config."""

    @property
    def uses_accounts(self) -> bool:
        """True if each controller acts as its own service account."""
        return self.config.generic.use_service_account_credentials

    def _reviewer(self, transport: Transport | None) -> Client | None:
        return None if transport is None else self._client(transport)

    def _client(self, transport: Transport) -> Client:
        return Client(
            transport,
            self.clock,
            server_clock=self.server_clock,
            in_flight=_IN_FLIGHT,
        )
