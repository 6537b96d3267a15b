"""What the checks look at: the configuration, the cluster, and the API server."""

import re
from http import HTTPStatus
from typing import Any, Final

import msgspec
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
from controller_manager.version import KUBERNETES_VERSION

from .finding import Finding, error, ok, warning

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


_OLDEST: Final = 33
"""The oldest minor version of an API server with which this build was seen to work."""

_THIS: Final = int(KUBERNETES_VERSION.split(".")[1])
_MINOR: Final = re.compile(r"v?1\.(\d+)")


async def check_server(examined: Examination) -> list[Finding]:
    """Check that the API server is healthy, and that it knows this identity."""
    answer = await examined.client.raw("GET", "/healthz")
    where = f"the API server at {examined.host}"
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        mend = "check the credentials, and the role system:public-info-viewer"
        return [error(f"{where} answered {answer.status} to /healthz", mend)]
    if answer.status != HTTPStatus.OK:
        return [error(f"{where} answered {answer.status} to /healthz")]
    return [ok(f"{where} is healthy")]


async def server_minor(client: Client) -> tuple[str, int | None]:
    """Return the version of the API server, and its minor version if it has one.

    Raises TransportError if there is no answer.
    """
    answer = await client.raw("GET", "/version")
    try:
        document: Any = msgspec.json.decode(answer.body)
        version = str(document["gitVersion"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"unknown, /version was answered with {answer.status}", None
    found = _MINOR.match(version)
    return version, int(found[1]) if found else None


async def check_version(examined: Examination) -> list[Finding]:
    """Check that the API server is not too old, and not too new for this build.

    Upstream's policy: a controller manager must not be newer than the API server, and
    at most one minor version older. This build was seen to work with older ones.
    """
    version, minor = await server_minor(examined.client)
    here = f"this build has {KUBERNETES_VERSION}"
    if minor is None:
        return [warning(f"the version of the API server is {version}")]
    if minor < _OLDEST:
        mend = f"upgrade the API server to 1.{_OLDEST} or later"
        return [error(f"the API server has {version}, {here}: it is too old", mend)]
    if minor > _THIS + 1:
        mend = "use a build that is at most one minor version older"
        return [error(f"the API server has {version}, {here}: it is too new", mend)]
    if minor > _THIS:
        return [warning(f"the API server has {version}, {here}: not tested")]
    emulated = int(examined.config.emulated_version.split(".")[1])
    if emulated > minor:
        return [
            warning(
                f"the API server has {version}, {here}: feature gates have defaults "
                "that the API server does not know",
                f"give --emulated-version=1.{minor}",
            )
        ]
    return [ok(f"the API server has {version}, {here}")]
