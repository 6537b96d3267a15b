"""What a cluster starts with, and the controllers beside it in the same process."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Final, NamedTuple

from controller_manager.client.builder import Connections
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import Clock, SystemClock
from controller_manager.devcluster.apiserver.security import User
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import Logger
from controller_manager.options.config import Config
from controller_manager.options.parsing import parse
from controller_manager.runtime.registry import Registry
from controller_manager.version import USER_AGENT

from .admission.plugins import ON_BY_DEFAULT, WITHOUT_ACCOUNTS, chosen_plugins
from .certificates import ClusterKeys
from .cluster import ClusterOptions, DevCluster
from .controlplane import MANAGER
from .data.data_file import DataFile
from .inmemory import InMemoryTransport
from .settings import ServerSettings, Settings


def embedded_config(
    build: Registry,
    secure_port: int,
    verbosity: int = 0,
    feature_gates: Sequence[str] = (),
    more: Mapping[str, str] = MappingProxyType({}),
) -> Config:
    """Return the config of a build's controllers beside their own API server.

    It is parsed from flags, so that /configz and /flagz show all settings. The port is
    that of the controllers' endpoints, 0 for none; `more` are further flags. Raises
    OptionsError for a feature gate that cannot be set.
    """
    flags = {
        "authentication-skip-lookup": "true",
        "bind-address": "127.0.0.1",
        "kube-api-qps": "-1",  # no limit
        "leader-elect": "false",
        "secure-port": str(secure_port),
        "use-service-account-credentials": "true",
        "v": str(verbosity),
        **more,
    }
    given: dict[str, Sequence[str]] = {name: (text,) for name, text in flags.items()}
    if feature_gates:
        given["feature-gates"] = feature_gates
    return parse(given, build)


_OF_SERVER: Final = fields(ServerSettings)
_OF_ACCOUNTS: Final = frozenset(
    ("serviceaccount-controller", "root-ca-certificate-publisher-controller")
)
"""Controllers that create the objects that the plugin ServiceAccount needs."""


class Prepared(NamedTuple):
    """What a cluster and its controllers start with."""

    options: ClusterOptions
    config: Config
    directory: Path
    """A temporary directory, which has the keys."""


@contextmanager
def prepared(
    settings: Settings, build: Registry, *, secure_port: int, port_remedy: str
) -> Iterator[Prepared]:
    """Open the data file, write the keys, and check the other settings.

    The files exist while this is entered. Raises DataError, OptionsError, PluginError.
    """
    with ExitStack() as stack:
        file = None
        if settings.data is not None:
            file = stack.enter_context(DataFile.open(Path(settings.data)))
        keys = file.keys if file is not None else ClusterKeys.generate()
        temporary = TemporaryDirectory(prefix="devcluster-")
        directory = Path(stack.enter_context(temporary))
        flags = keys.write(directory)
        if settings.controllers:
            flags["controllers"] = ",".join(settings.controllers)
        config = embedded_config(
            build,
            secure_port,
            max(settings.verbosity, 0),
            settings.feature_gates,
            flags,
        )
        options = ClusterOptions(
            **{each.name: getattr(settings, each.name) for each in _OF_SERVER},
            port_remedy=port_remedy,
            build=build,
            features=config.features,
            admission_plugins=_plugins(settings, build),
            keys=keys,
            data=file,
        )
        yield Prepared(options, config, directory)


def _plugins(settings: Settings, build: Registry) -> frozenset[str]:
    """Return the admission plugins that are on; raises PluginError."""
    running = {each.name for each in build.select(settings.controllers)}
    return chosen_plugins(
        settings.enable_admission_plugins,
        settings.disable_admission_plugins,
        ON_BY_DEFAULT if running >= _OF_ACCOUNTS else WITHOUT_ACCOUNTS,
    )


@asynccontextmanager
async def controllers_over_https(
    cluster: DevCluster, config: Config, logger: Logger
) -> AsyncIterator[ControllerManager]:
    """Run the controllers of the cluster's build over HTTPS, until left.

    As under kubeadm, the manager authenticates with its certificate, and each
    controller as its own service account.
    """
    credentials = cluster.manager_credentials()
    transport = HTTPTransport(credentials, USER_AGENT)
    anonymous = HTTPTransport(credentials.anonymous(), USER_AGENT)
    connections = Connections(
        transport,
        anonymous,
        transport,
        transport,
        root_ca=credentials.authority(),
    )
    try:
        async with _running(
            cluster.build, config, connections, SystemClock(), logger
        ) as manager:
            yield manager
    finally:
        await anonymous.close()
        await transport.close()


@asynccontextmanager
async def controllers_in_memory(
    cluster: DevCluster, config: Config, clock: Clock, logger: Logger
) -> AsyncIterator[ControllerManager]:
    """Run the controllers of the cluster's build without the network, until left.

    They have the same identities as over HTTPS. The interceptor between the network and
    the server does not see their requests.
    """
    token = secrets.token_urlsafe(32)
    cluster.server.tokens.add(token, User(MANAGER))
    connections = Connections(
        InMemoryTransport(cluster.server, token, USER_AGENT),
        InMemoryTransport(cluster.server, user_agent=USER_AGENT),
        root_ca=cluster.credentials().authority(),
    )
    async with _running(cluster.build, config, connections, clock, logger) as manager:
        yield manager


@asynccontextmanager
async def _running(
    build: Registry,
    config: Config,
    connections: Connections,
    clock: Clock,
    logger: Logger,
) -> AsyncIterator[ControllerManager]:
    """Run the controllers until left; they have started when this is entered."""
    manager = ControllerManager(
        config,
        connections,
        clock=clock,
        rng=random.Random(),  # noqa: S311 - jitter and names
        logger=logger,
        build=build,
    )
    stop = asyncio.Event()
    running = asyncio.create_task(manager.run(stop), name="controller-manager")
    starting = asyncio.create_task(manager.started.wait())
    try:
        await asyncio.wait((running, starting), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield manager
    finally:
        starting.cancel()
        stop.set()
        await running
