"""Start-up and shut-down, in order, and nothing else."""

import asyncio
import gc
import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, disable_created_metrics

from controller_manager.client.builder import ClientBuilder, Connections
from controller_manager.client.client import Client
from controller_manager.client.discovery import served_resources
from controller_manager.client.errors import (
    APIError,
    ProtocolError,
    TransportError,
    UntrustedServer,
)
from controller_manager.client.events import EventBroadcaster
from controller_manager.client.leader_election import (
    LeaderElector,
    is_of_this_program,
    new_identity,
)
from controller_manager.client.ownership import LeaseOwnership
from controller_manager.client.transport import Transport
from controller_manager.clock import Clock
from controller_manager.informers.factory import ControllerInformers, InformerFactory
from controller_manager.manager.controllers import ControllerGroup
from controller_manager.manager.health import health_checks, readiness_checks
from controller_manager.observability.lag import watch_loop
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics import Collectors, ElectionCollectors
from controller_manager.observability.process import register_process
from controller_manager.options.config import Config
from controller_manager.registry import (
    UPSTREAM_DEFAULTS,
    Descriptor,
    known_names,
    select,
)
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.stopping import done_before
from controller_manager.runtime.turns import Turns
from controller_manager.runtime.worker import DebugPage
from controller_manager.serving.authentication import Authenticator
from controller_manager.serving.authorization import Authorizer
from controller_manager.serving.certificates import Certificates
from controller_manager.serving.health import HealthCheck
from controller_manager.serving.reviews import ReviewLimiter
from controller_manager.serving.server import Pages, Server
from controller_manager.version import VERSION

USER_AGENT: Final = f"controller-manager/v{VERSION}"
COMPONENT: Final = "kube-controller-manager"

_POLL: Final = 1.0
_EVENT_FLUSH: Final = 3.0
_FILES_FOR_REQUESTS: Final = 64
_LEAST_WATCHES: Final = 16
_CACHE_PATIENCE: Final = 10.0
"""Seconds that all caches are waited for before some controllers start alone."""


class StartError(Exception):
    """The daemon cannot start; the message says why and what to do."""


class ControllerManager:
    """The daemon: from a config and connections to running controllers.

    The order is: serve; wait for the API server, for as long as it takes; see
    which resources it has; make the controllers and start the informers. Once
    the caches are synced and, where managers elect a leader, this one leads,
    the workers start, one controller after the other. A standby has done all
    but the last step. A cache that does not come is waited for by those that need
    it; the others start without them after a while.
    """

    def __init__(
        self,
        config: Config,
        connections: Connections,
        *,
        clock: Clock,
        rng: random.Random,
        logger: Logger,
        registry: CollectorRegistry | None = None,
        work_clock: Callable[[], float] = time.perf_counter,
        open_files: int = 0,
    ) -> None:
        """Take what to run with; the connections stay the caller's to close.

        `work_clock` measures, in seconds, how long work keeps others waiting.
        `open_files` is how many this process may have, 0 for any number.
        """
        self._config = config
        self._connections = connections
        self._clock = clock
        self._rng = rng
        self._logger = logger
        self._started_at = clock.now()
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry or CollectorRegistry()
        self._collectors = Collectors(
            self._registry, connections.manager.host, COMPONENT
        )
        register_process(self._registry)
        self._clients = ClientBuilder(
            connections,
            config.client,
            clock=clock,
            metrics=self._collectors.client,
            logger=logger,
        )
        self._factory = InformerFactory(
            self._clients.manager(),
            min_resync_period=config.generic.min_resync_period,
            gates=config.features,
            rng=rng,
            logger=logger.bind(component="informers"),
            metrics=self._collectors.informers,
            most_watches=_most_watches(open_files),
        )
        self._turns = Turns(clock=work_clock, turned=self._collectors.loop.turned)
        self._broadcasters: list[EventBroadcaster] = []
        self.elector = self._make_elector()
        self._controllers = ControllerGroup(rng, logger, self._collectors.caches)
        self._waiting_for = "the start"
        self._stopping = False
        self.synced = asyncio.Event()
        self.started = asyncio.Event()
        self.server: Server | None = None

    def _make_elector(self) -> LeaderElector | None:
        config = self._config.generic.leader_election
        if not config.leader_elect:
            return None
        # The event about our leading is written only while we lead.
        recorder = self._broadcaster(self._clients.writer(), COMPONENT)
        elector = LeaderElector(
            self._clients.lease(),
            config,
            new_identity(socket.gethostname(), self._rng),
            clock=self._clock,
            rng=self._rng,
            recorder=recorder,
            metrics=ElectionCollectors(self._registry, config.resource_name),
            logger=self._logger.bind(component="leaderelection"),
        )
        self._clients.fence(LeaseOwnership(elector))
        return elector

    @property
    def informers(self) -> InformerFactory:
        """The caches that all controllers share."""
        return self._factory

    @property
    def is_idle(self) -> bool:
        """Whether no key waits or is being worked on, delayed ones aside."""
        return self._controllers.is_idle

    @property
    def controllers(self) -> ControllerGroup:
        """The controllers that were selected, and that the API server can serve."""
        return self._controllers

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then finish what is in progress.

        Raises StartError if the API server cannot be used in time, ServingError
        if the port or a certificate cannot, LeadershipLost when another must
        take over, each alone or in a group, and whatever a defect raises.
        """
        wanted = self._selected()
        for warning in self._config.warnings:
            self._logger.warning(warning)
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(
                    watch_loop(self._collectors.loop), name="event-loop-lag"
                )
            ]
            try:
                background += await self._serve(group)
                await self._run(wanted, stop)
            finally:
                for task in background:
                    task.cancel()
                await self._clients.close()
                if self.server is not None:
                    await self.server.close()

    # Serving.

    async def _serve(self, group: asyncio.TaskGroup) -> list["asyncio.Task[None]"]:
        """Start to serve; return what goes on in the background for that."""
        if self._config.serving.port == 0:
            return []
        logger = self._logger.bind(component="serving")
        authenticator = Authenticator(
            self._config.authentication,
            self._reviewer(self._connections.authentication),
            lookup=self._lookup(self._connections.authentication),
            clock=self._clock,
            logger=logger,
        )
        authorizer = Authorizer(
            self._config.authorization,
            self._reviewer(self._connections.authorization),
            clock=self._clock,
            logger=logger,
        )
        certificates = Certificates(
            self._config.serving,
            authenticator.authorities.bundle,
            wants_clients=authenticator.wants_certificates,
            logger=logger,
        )
        pages = Pages(
            self._health_checks,
            self._readiness_checks,
            self._registry,
            self._refresh,
            self._debug_pages,
            self._started_at,
        )
        self.server = Server(
            self._config,
            pages,
            certificates,
            authenticator,
            authorizer,
            self._clock,
            logger,
        )
        await self.server.start()
        self._logger.info(
            "Serving securely",
            address=f"{self._config.serving.bind_address}:{self.server.port}",
        )
        following = authenticator.follow_cluster()
        return [group.create_task(following, name="authentication-settings")]

    def _reviewer(self, transport: Transport | None) -> Client | None:
        if transport is None:
            return None
        limiter = ReviewLimiter(self._clock)
        return Client(transport, self._clock, limiter, self._collectors.client)

    def _lookup(self, transport: Transport | None) -> Client | None:
        if transport is None:
            return None
        return Client(transport, self._clock, metrics=self._collectors.client)

    def _health_checks(self) -> Mapping[str, HealthCheck]:
        return health_checks(self.elector, self._controllers)

    def _readiness_checks(self) -> Mapping[str, HealthCheck]:
        return readiness_checks(
            self._waiting_for,
            self._factory,
            self._controllers,
            stopping=self._stopping,
        )

    def _debug_pages(self) -> Mapping[str, Mapping[str, DebugPage]]:
        return {each.name: each.controller.debug for each in self._controllers}

    def _refresh(self) -> None:
        """Bring up to date what changes with time alone, before a scrape."""
        ends_at = self._connections.credential_ends_at()
        left = (ends_at - self._clock.now()).total_seconds() if ends_at else None
        self._collectors.client.plugin_ttl(left)
        self._controllers.report()

    # Start-up.

    def _selected(self) -> list[Descriptor]:
        """Return the controllers that are asked for; raises StartError for none."""
        asked_for = self._config.generic.controllers
        if wanted := select(asked_for):
            return wanted
        msg = (
            f"--controllers={','.join(asked_for)}: there is no controller to run; "
            f"this build has: {', '.join(known_names())}"
        )
        raise StartError(msg)

    async def _run(self, wanted: Sequence[Descriptor], stop: asyncio.Event) -> None:
        if await done_before(stop, self._prepare(wanted)):
            await self._run_controllers(stop)

    async def _prepare(self, wanted: Sequence[Descriptor]) -> None:
        """Wait for the API server, see what it has, make the controllers."""
        await self._wait_for_api_server()
        self._waiting_for = "discovery"
        for descriptor in await self._available(wanted):
            init = descriptor.load()
            informers = ControllerInformers(self._factory)
            controller = init(self._context(descriptor, informers))
            if controller is None:
                self._logger.warning(
                    "Controller is switched off", controller=descriptor.name
                )
                continue
            self._controllers.add(controller, informers)
        if not self._controllers:
            msg = (
                f"none of {', '.join(each.name for each in wanted)} can run here; the "
                "warnings above say why"
            )
            raise StartError(msg)
        self._waiting_for = ""

    async def _wait_for_api_server(self) -> None:
        client = self._clients.manager()
        patience = self._config.generic.api_server_timeout
        deadline = self._clock.monotonic() + patience if patience else None
        known = ""
        while problem := await _health_problem(client):
            self._waiting_for = f"the API server: {problem}"
            if deadline is not None and self._clock.monotonic() + _POLL > deadline:
                msg = (
                    "failed to wait for apiserver being healthy within "
                    f"{patience:g} s: {problem}"
                )
                raise StartError(msg)
            if problem != known:
                self._logger.warning("Waiting for the API server", err=problem)
                known = problem
            await asyncio.sleep(_POLL)

    async def _available(self, wanted: Sequence[Descriptor]) -> list[Descriptor]:
        """Return the controllers whose resources the API server has."""
        client = self._clients.manager()
        served: dict[str, frozenset[str] | None] = {}
        available = []
        for descriptor in wanted:
            missing = []
            for resource in descriptor.required:
                version = resource.api_version
                if version not in served:
                    served[version] = await self._discovered(client, version)
                if resource.plural not in (served[version] or ()):
                    missing.append(f"{version}/{resource.plural}")
            if missing:
                self._logger.warning(
                    "Controller skipped, the API server lacks its resources",
                    controller=descriptor.name,
                    missing=", ".join(missing),
                )
            else:
                available.append(descriptor)
        return available

    async def _discovered(
        self, client: Client, api_version: str
    ) -> frozenset[str] | None:
        while True:
            try:
                return await served_resources(client, api_version)
            except (APIError, TransportError, ProtocolError) as error:
                self._logger.warning(
                    "Resources not discovered, trying again",
                    groupVersion=api_version,
                    err=str(error),
                )
            await asyncio.sleep(_POLL)

    def _broadcaster(self, client: Client, component: str) -> EventBroadcaster:
        broadcaster = EventBroadcaster(
            client,
            component,
            clock=self._clock,
            rng=self._rng,
            logger=self._logger.bind(component=component),
        )
        self._broadcasters.append(broadcaster)
        return broadcaster

    def _client_of(self, descriptor: Descriptor) -> Client:
        return self._clients.controller(
            descriptor.name,
            descriptor.service_account,
            descriptor.qps_factor,
            descriptor.burst_factor,
        )

    def _context(
        self, descriptor: Descriptor, informers: ControllerInformers
    ) -> ControllerContext:
        # Events have a rate limit of their own: a burst of them must not make
        # syncs wait.
        recorder = self._broadcaster(self._client_of(descriptor), descriptor.component)
        return ControllerContext(
            name=descriptor.name,
            config=self._config,
            client=self._client_of(descriptor),
            informers=informers,
            recorder=recorder,
            clock=self._clock,
            server_clock=self._clients.server_clock,
            rng=self._rng,
            logger=self._logger.bind(component=descriptor.name),
            root_ca=self._connections.root_ca,
            turns=self._turns,
            metrics=self._collectors,
        )

    # Running.

    async def _run_controllers(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(broadcaster.run(), name="events")
                for broadcaster in self._broadcasters
            ]
            if self.elector is not None:
                # First of all: it opens a connection while there are files left.
                background.append(
                    group.create_task(self.elector.watch(), name="lease-watch")
                )
            background.append(group.create_task(self._factory.run(), name="informers"))
            background.append(group.create_task(self._note_sync(), name="sync"))
            try:
                if await done_before(stop, self._can_work_and_leads()):
                    await self._lead(group, stop, background)
                elif self.elector is not None:
                    # Told to stop at the very moment of taking the lease.
                    await self.elector.release()
            finally:
                for task in background:
                    task.cancel()

    async def _note_sync(self) -> None:
        await self._factory.wait_for_sync()
        self._logger.info("Caches are synced")
        self.synced.set()

    async def _can_work_and_leads(self) -> None:
        """Wait for caches first: who cannot work must not lead."""
        await self._controllers.some_can_work(_CACHE_PATIENCE)
        # What is cached now lives long: keep it out of every later collection.
        gc.collect()
        gc.freeze()
        if self.elector is not None:
            await self.elector.acquire()
            self._warn_of_another_kind(self.elector.taken_from)

    def _warn_of_another_kind(self, former: str) -> None:
        """Say which controllers run no longer, if upstream's manager ran them."""
        if not former or is_of_this_program(former):
            return
        absent = sorted(set(UPSTREAM_DEFAULTS) - set(self._controllers.names))
        if absent:
            self._logger.warning(
                "Took the lease over from a manager of another kind; nobody runs these "
                "controllers of kube-controller-manager now",
                former=former,
                controllers=", ".join(absent),
            )

    async def _lead(
        self,
        group: asyncio.TaskGroup,
        stop: asyncio.Event,
        background: list["asyncio.Task[None]"],
    ) -> None:
        if self.elector is not None:
            background.append(group.create_task(self.elector.hold(), name="lease"))
        interval = self._config.generic.controller_start_interval
        running = await self._controllers.start(group, stop, interval)
        self.started.set()
        await stop.wait()
        await self._shut_down(running)
        if self.elector is not None:
            # A renewal that is under way would come after the release.
            holding = background.pop()
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)
            await self.elector.release()

    async def _shut_down(self, running: Sequence["asyncio.Task[None]"]) -> None:
        self._logger.info("Shutting down")
        self._stopping = True
        self._controllers.stop()
        timeout = self._config.generic.controller_shutdown_timeout
        if running:
            _, late = await asyncio.wait(running, timeout=timeout)
            for task in late:
                self._logger.warning("Syncs cut short", controller=task.get_name())
                task.cancel()
            # None of them may write once the lease is given back.
            await asyncio.gather(*late, return_exceptions=True)
        flushing = [
            asyncio.create_task(broadcaster.flush())
            for broadcaster in self._broadcasters
        ]
        if flushing:
            _, unwritten = await asyncio.wait(flushing, timeout=_EVENT_FLUSH)
            for flush in unwritten:
                flush.cancel()


def _most_watches(open_files: int) -> int:
    """Return how many watches there may be, so that files are left for writes.

    The HTTPS server may use a quarter of all files.
    """
    if not open_files:
        return 0
    return max(_LEAST_WATCHES, open_files * 3 // 4 - _FILES_FOR_REQUESTS)


async def _health_problem(client: Client) -> str | None:
    try:
        answer = await client.raw("GET", "/healthz")
    except UntrustedServer as error:
        # Waiting does not help: it is the configuration that is wrong.
        raise StartError(str(error)) from error
    except TransportError as error:
        return str(error)
    if answer.status == HTTPStatus.OK:
        return None
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"/healthz answered {answer.status}: check the credentials"
    return f"/healthz answered {answer.status}"
