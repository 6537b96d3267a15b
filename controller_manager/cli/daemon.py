"""Runs the daemon: reads credentials, raises the limit of open files, handles signals.

It uses uvloop.
"""

import asyncio
import os
import random
import resource
import signal
import ssl
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any, Final, TypeVar

import uvloop
from prometheus_client import CollectorRegistry

from controller_manager.client.builder import Connections
from controller_manager.client.identity.credentials import (
    ConnectionCounts,
    Credentials,
    ReadKubeconfig,
    from_kubeconfig,
    in_cluster,
    is_in_cluster,
    load_credentials,
)
from controller_manager.client.identity.kubeconfig import ConfigError, read_kubeconfig
from controller_manager.client.identity.tls import pem_only, tls_reason
from controller_manager.client.leadership.leader_election import LeadershipLost
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Transport
from controller_manager.client.wire.file_reserve import FileReserve
from controller_manager.clock import Clock, SystemClock
from controller_manager.manager.control_loop import ControlLoop, ControlThread
from controller_manager.manager.manager import ControllerManager
from controller_manager.manager.startup import StartError
from controller_manager.observability.connections import LookUpSeconds
from controller_manager.observability.defects import log_loop_errors
from controller_manager.observability.logs import Logger, library_logs
from controller_manager.observability.metrics.manager import LogCollectors
from controller_manager.options.config import Config
from controller_manager.runtime.registry import Registry
from controller_manager.serving.certificates import ServingError
from controller_manager.version import KUBERNETES_VERSION, USER_AGENT

from .failure import Failure

_FEW: Final = 1024
"""Below this limit a warning is logged: custom resources may need more files."""


def raise_open_files_limit(logger: Logger) -> int:
    """Raise the soft limit of open files to the hard limit.

    Returns the limit, 0 if there is none.

    Go's runtime does the same at its start. A soft limit of 1,024 is usual for
    historic reasons only (``select``, which this program does not use).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            logger.warning(
                "The limit of open files cannot be raised",
                limit=soft,
                wanted=hard,
                err=str(error),
            )
        else:
            soft = hard
    if soft == resource.RLIM_INFINITY:
        return 0
    if soft < _FEW:
        logger.warning(
            "This process may open few files, and each watched resource needs one; "
            "raise the hard limit (ulimit -n, LimitNOFILE=)",
            limit=soft,
        )
    return soft


ResultT = TypeVar("ResultT")

_RESERVE: Final = 4
"""Files reserved for each lease: for its watch and its requests, each twice.

The events about a lease, which are few, use the same connections.
"""

_LAST_LINE: Final = 0.2
"""Seconds in which the log of a process that exits at once is written."""

_MENDABLE: Final = (ConfigError, LeadershipLost, ServingError, StartError)


async def run_daemon(
    config: Config,
    given: Mapping[str, Sequence[str]],
    build: Registry,
    logger: Logger,
) -> None:
    """Run the controllers of a build until SIGTERM or SIGINT.

    `given` are the flags that made the config, as written. A preview adds those of the
    manager in charge. A second signal ends the process immediately. The lease and the
    endpoints have a thread of their own, with an event loop like that of the
    controllers.
    """
    clock = SystemClock()
    open_files = raise_open_files_limit(logger)
    log_loop_errors(logger)
    async with AsyncExitStack() as stack:
        stack.enter_context(library_logs(logger))
        end = partial(_end_process, logger)
        thread = ControlThread(clock, logger, uvloop.new_event_loop, end)
        control_loop = await stack.enter_async_context(thread)
        opener = Opener(stack, control_loop, build.user_agent)
        connections = await connect(config, clock, logger, opener, build.clusters)
        if config.preview.enabled:
            config = await _as_in_charge(config, given, connections, build, logger)
        logger.info("Starting", version=build.version, kubernetes=KUBERNETES_VERSION)
        registry = CollectorRegistry()
        LogCollectors(registry, logger.lost)
        manager = ControllerManager(
            config,
            connections,
            clock=clock,
            rng=random.Random(),  # noqa: S311 - jitter and ids
            logger=logger,
            build=build,
            registry=registry,
            open_files=open_files,
            control_loop=control_loop,
        )
        await manager.run(stop_on_signals(logger))


async def _as_in_charge(
    config: Config,
    given: Mapping[str, Sequence[str]],
    connections: Connections,
    build: Registry,
    logger: Logger,
) -> Config:
    """Return a preview's config with the flags of the manager in charge."""
    from controller_manager.preview.in_charge import (  # noqa: PLC0415 - the preview's
        with_flags_in_charge,
    )

    client = Client(connections.manager, SystemClock())
    try:
        return await with_flags_in_charge(config, given, client, build, logger)
    except TransportError as error:
        msg = f"the flags of the manager in charge cannot be read: {error}"
        raise StartError(msg) from error


def _end_process(logger: Logger, why: str) -> None:
    """End this process at once, as upstream's manager does when it loses the lease."""
    logger.error("Exiting at once", err=why)
    logger.close(_LAST_LINE)
    os._exit(1)


def stop_on_signals(logger: Logger) -> asyncio.Event:
    """Return an event that the first signal sets; a second signal ends the process."""
    stop = asyncio.Event()

    def received(name: str) -> None:
        if stop.is_set():
            logger.warning("Second signal, exiting at once", signal=name)
            logger.close(_LAST_LINE)
            os._exit(1)
        # Set this first: a failure of the log must not prevent it.
        stop.set()
        logger.info("Stopping", signal=name)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, received, number.name)
    return stop


async def connect(
    config: Config,
    clock: Clock,
    logger: Logger,
    open_transport: "Opener",
    clusters: Sequence[str] = (),
) -> Connections:
    """Read all credentials and open the connections, also to other clusters.

    Those of the lease and of the reviews are opened beside the main loop, and share no
    credentials with the others: a token that is read again belongs to one thread.
    Raises ConfigError for credentials that cannot be used.
    """
    root_ca = _root_ca(config.root_ca_file)
    read = cache(read_kubeconfig)  # all flags usually name the same file
    kubeconfig, master = config.client.kubeconfig, config.client.master
    manager, leader = (
        load_credentials(kubeconfig, master, clock, logger, read) for _ in range(2)
    )
    authentication, authorization = (
        _reviewer(clock, logger, read, flag, path)
        for flag, path in (
            ("--authentication-kubeconfig", config.authentication.kubeconfig),
            ("--authorization-kubeconfig", config.authorization.kubeconfig),
        )
    )
    own = config.generic.use_service_account_credentials
    anonymous = manager.anonymous()
    others = {
        name: _of_flag(clock, logger, read, f"--kubeconfig-{name}", path)
        for name in clusters
        if (path := config.flags[f"kubeconfig-{name}"])
    }
    reviewers = filter(None, (authentication, authorization))
    everyone = [manager, leader, anonymous, *reviewers, *others.values()]
    return Connections(
        manager=await open_transport(manager),
        anonymous=await open_transport(anonymous) if own else None,
        authentication=await open_transport.beside(authentication),
        authorization=await open_transport.beside(authorization),
        root_ca=root_ca or manager.authority(),
        credential_expires_at=manager.expires_at,
        lease=await _lease_transport(config, leader, open_transport),
        counts=lambda: reduce(
            ConnectionCounts.plus, (each.counts() for each in everyone)
        ),
        certificates=lambda: {
            where: pem for each in everyone for where, pem in each.certificate().items()
        },
        look_ups=open_transport.look_ups,
        clusters={
            name: Connections(await open_transport(each))
            for name, each in others.items()
        },
    )


class Opener:
    """Opens transports, which a stack of contexts closes."""

    def __init__(
        self,
        stack: AsyncExitStack,
        control_loop: ControlLoop,
        user_agent: str = USER_AGENT,
    ) -> None:
        """Take the loop for what must not wait, and the User-Agent header."""
        self._stack = stack
        self._control_loop = control_loop
        self._user_agent = user_agent
        self.look_ups = LookUpSeconds()

    async def __call__(self, credentials: Credentials) -> Transport:
        """Open a transport of the main loop."""
        transport = await self._open(credentials)
        self._stack.push_async_callback(transport.close)
        return transport

    async def beside(
        self, credentials: Credentials | None, reserve: FileReserve | None = None
    ) -> Transport | None:
        """Open a transport beside the main loop; `None` without credentials."""
        if credentials is None:
            return None
        opening = partial(self._open, credentials, reserve)
        transport = await self._control_loop.run(opening)
        self._stack.push_async_callback(self._control_loop.run, transport.close)
        return transport

    async def _open(
        self, credentials: Credentials, reserve: FileReserve | None = None
    ) -> Transport:
        from controller_manager.client.wire.http import (  # noqa: PLC0415 - aiohttp
            HTTPTransport,
        )

        observe = self.look_ups.observe
        return HTTPTransport(credentials, self._user_agent, reserve, observe)


async def _lease_transport(
    config: Config, leader: Credentials, open_transport: Opener
) -> Transport | None:
    """Return the transport of the leases, `None` without an election."""
    if not config.generic.leader_election.leader_elect:
        return None
    leases = 2 if config.generic.leader_migration is not None else 1
    return await open_transport.beside(leader, FileReserve(_RESERVE * leases))


def _root_ca(path: str) -> str:
    """Return the certificates of --root-ca-file; raises ConfigError."""
    if not path:
        return ""
    try:
        content = Path(path).read_bytes()
        ssl.create_default_context(cadata=pem_only(content))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        msg = f"--root-ca-file: {path}: {why or tls_reason(error)}"
        raise ConfigError(msg) from error
    return content.decode()


def _reviewer(
    clock: Clock, logger: Logger, read: ReadKubeconfig, flag: str, path: str
) -> Credentials | None:
    """Return the credentials to review requests with; in a pod, those of the pod.

    `None` if there are no such credentials.
    """
    if not path:
        return in_cluster(clock, logger=logger) if is_in_cluster() else None
    return _of_flag(clock, logger, read, flag, path)


def _of_flag(
    clock: Clock, logger: Logger, read: ReadKubeconfig, flag: str, path: str
) -> Credentials:
    """Return the credentials of the kubeconfig that a flag names."""
    try:
        return from_kubeconfig(path, "", clock, logger=logger, read=read)
    except ConfigError as error:
        msg = f"{flag}: {error}"
        raise ConfigError(msg) from error


def run(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run `main` on uvloop; report errors that a user can correct in one line."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)
    except KeyboardInterrupt:
        raise Failure(["interrupted"]) from None
    except BaseExceptionGroup as group:
        raise _mendable(group) from group
    except _MENDABLE as error:
        raise Failure([_line(error)]) from None


def _mendable(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return a Failure if a user can correct all errors of a group, else the group."""
    known, unknown = group.split(_MENDABLE)
    if known is not None and unknown is None:
        first: BaseException = known
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        return Failure([_line(first)])
    return group


def _line(error: BaseException) -> str:
    if isinstance(error, LeadershipLost):
        return f"leader election lost: {error}"
    return str(error)
