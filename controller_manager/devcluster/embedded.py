"""The controllers that run beside the development cluster, in the same process."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType

from controller_manager.client.builder import Connections
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import Clock, SystemClock
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.logs import Logger
from controller_manager.options.config import Config
from controller_manager.options.parsing import parse
from controller_manager.runtime.registry import Registry
from controller_manager.version import USER_AGENT

from .cluster import DevCluster
from .controlplane import MANAGER
from .inmemory import InMemoryTransport
from .server.security.authentication import User


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
