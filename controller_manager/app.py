"""Start-up and shut-down, in order, and nothing else."""

import asyncio
import gc
import random
import socket
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from prometheus_client import CollectorRegistry, disable_created_metrics

from controller_manager.client.client import Client
from controller_manager.client.discovery import served_resources
from controller_manager.client.errors import (
    APIError,
    ProtocolError,
    TransportError,
    UntrustedServer,
)
from controller_manager.client.events import EventBroadcaster
from controller_manager.client.identities import Connections, Identities
from controller_manager.client.leader_election import LeaderElector
from controller_manager.clock import Clock
from controller_manager.informers.factory import InformerFactory
from controller_manager.observability.lag import watch_loop
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics import Collectors, ElectionCollectors
from controller_manager.observability.process import register_process
from controller_manager.options.config import Config
from controller_manager.registry import Descriptor, select
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller
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


class StartError(Exception):
    """The daemon cannot start; the message says why and what to do."""


class ControllerManager:
    """The daemon: from a config and connections to running controllers.

    The order is: serve; wait for the API server, for as long as it takes; see
    which resources it has; make the controllers and start the informers. Once
    the caches are synced and, where managers elect a leader, this one leads,
    the workers start, one controller after the other. A standby has done all
    but the last step.
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
    ) -> None:
        """Take what to run with; the connections stay the caller's to close."""
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
        self._identities = Identities(
            connections,
            config.client,
            clock=clock,
            metrics=self._collectors.client,
            logger=logger,
        )
        self._factory = InformerFactory(
            self._identities.manager(),
            min_resync_period=config.generic.min_resync_period,
            stream_lists=config.features.watch_list_client,
            rng=rng,
            logger=logger.bind(component="informers"),
            metrics=self._collectors.informers,
        )
        self._broadcasters: list[EventBroadcaster] = []
        self.elector = self._make_elector()
        self._controllers: dict[str, Controller] = {}
        self._descriptors: list[Descriptor] = []
        self._running: set[str] = set()
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
        identity = f"{socket.gethostname()}_{self._uuid()}"
        recorder = self._broadcaster(self._identities.writer(), COMPONENT)
        elector = LeaderElector(
            self._identities.unlimited(),
            config,
            identity,
            clock=self._clock,
            rng=self._rng,
            recorder=recorder,
            metrics=ElectionCollectors(self._registry, config.resource_name),
            logger=self._logger.bind(component="leaderelection"),
        )
        self._identities.fence(elector)
        return elector

    def _uuid(self) -> str:
        digits = f"{self._rng.getrandbits(128):032x}"
        return "-".join(
            (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        )

    @property
    def informers(self) -> InformerFactory:
        """The caches that all controllers share."""
        return self._factory

    @property
    def is_idle(self) -> bool:
        """Whether no key waits or is being worked on, delayed ones aside."""
        return all(each.is_idle for each in self._controllers.values())

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then finish what is in progress.

        Raises StartError if the API server cannot be used in time, ServingError
        if the port or a certificate cannot, LeadershipLost when another must
        take over, each alone or in a group, and whatever a defect raises.
        """
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
                await self._run(stop)
            finally:
                for task in background:
                    task.cancel()
                await self._identities.close()
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

    def _reviewer(self, transport: Any) -> Client | None:  # noqa: ANN401
        if transport is None:
            return None
        limiter = ReviewLimiter(self._clock)
        return Client(transport, self._clock, limiter, self._collectors.client)

    def _health_checks(self) -> Mapping[str, HealthCheck]:
        checks: dict[str, HealthCheck] = {}
        if self.elector is not None:
            checks["leaderElection"] = self.elector.health_problem
        for descriptor in self._descriptors:
            checks[descriptor.name] = partial(self._controller_problem, descriptor)
        return checks

    def _controller_problem(self, descriptor: Descriptor) -> str | None:
        workers = self._controllers.get(descriptor.name)
        if workers is None:
            return None
        if descriptor.name in self._running and not workers.is_healthy:
            return "workers have died"
        return self._factory.health_problem(descriptor.required)

    def _readiness_checks(self) -> Mapping[str, HealthCheck]:
        checks: dict[str, HealthCheck] = {
            "apiserver": lambda: (
                f"waiting for {self._waiting_for}" if self._waiting_for else None
            ),
            "shutdown": lambda: "shutting down" if self._stopping else None,
        }
        for resource, is_synced in self._factory.synced().items():
            problem = None if is_synced else "waiting for the cache to sync"
            checks[f"informer-{resource}"] = partial(_same, problem)
        return checks

    def _debug_pages(self) -> Mapping[str, Mapping[str, DebugPage]]:
        return {name: each.debug for name, each in self._controllers.items()}

    def _refresh(self) -> None:
        """Bring up to date what changes with time alone, before a scrape."""
        ends_at = self._connections.credential_ends_at()
        left = (ends_at - self._clock.now()).total_seconds() if ends_at else None
        self._collectors.client.plugin_ttl(left)
        for controller in self._controllers.values():
            controller.report_running()

    # Start-up.

    async def _run(self, stop: asyncio.Event) -> None:
        stopping = asyncio.create_task(stop.wait(), name="stop")
        try:
            if await _first(self._prepare(), stopping):
                await self._run_controllers(stopping)
        finally:
            stopping.cancel()

    async def _prepare(self) -> None:
        """Wait for the API server, see what it has, make the controllers."""
        await self._wait_for_api_server()
        self._waiting_for = "discovery"
        wanted = select(self._config.generic.controllers)
        self._descriptors = await self._available(wanted)
        for descriptor in self._descriptors:
            init = descriptor.load()
            controller = init(self._context(descriptor))
            if controller is None:
                self._logger.warning(
                    "Controller is switched off", controller=descriptor.name
                )
                continue
            self._controllers[descriptor.name] = controller
        self._waiting_for = ""

    async def _wait_for_api_server(self) -> None:
        client = self._identities.manager()
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
        client = self._identities.manager()
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
        return self._identities.controller(
            descriptor.name,
            descriptor.service_account,
            descriptor.qps_factor,
            descriptor.burst_factor,
        )

    def _context(self, descriptor: Descriptor) -> ControllerContext:
        # Events have a rate limit of their own: a burst of them must not make
        # syncs wait.
        recorder = self._broadcaster(self._client_of(descriptor), descriptor.component)
        return ControllerContext(
            name=descriptor.name,
            config=self._config,
            client=self._client_of(descriptor),
            informers=self._factory,
            recorder=recorder,
            clock=self._clock,
            server_clock=self._identities.server_clock,
            rng=self._rng,
            logger=self._logger.bind(component=descriptor.name),
            root_ca=self._connections.root_ca,
            metrics=self._collectors,
        )

    # Running.

    async def _run_controllers(self, stopping: "asyncio.Task[object]") -> None:
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(broadcaster.run(), name="events")
                for broadcaster in self._broadcasters
            ]
            background.append(group.create_task(self._factory.run(), name="informers"))
            if self.elector is not None:
                background.append(
                    group.create_task(self.elector.watch(), name="lease-watch")
                )
            try:
                if await _first(self._synced_and_leading(), stopping):
                    await self._lead(group, stopping, background)
                elif self.elector is not None:
                    # Told to stop at the very moment of taking the lease.
                    await self.elector.release()
            finally:
                for task in background:
                    task.cancel()

    async def _synced_and_leading(self) -> None:
        """Wait for the caches first: who cannot work must not lead."""
        await self._factory.wait_for_sync()
        # What is cached now lives long: keep it out of every later collection.
        gc.collect()
        gc.freeze()
        self._logger.info("Caches are synced")
        self.synced.set()
        if self.elector is not None:
            await self.elector.acquire()

    async def _lead(
        self,
        group: asyncio.TaskGroup,
        stopping: "asyncio.Task[object]",
        background: list["asyncio.Task[None]"],
    ) -> None:
        if self.elector is not None:
            background.append(group.create_task(self.elector.hold(), name="lease"))
        running = await self._start_workers(group, stopping)
        self.started.set()
        await stopping
        await self._shut_down(running)
        if self.elector is not None:
            # A renewal that is under way would come after the release.
            holding = background.pop()
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)
            await self.elector.release()

    async def _start_workers(
        self, group: asyncio.TaskGroup, stopping: "asyncio.Task[object]"
    ) -> list["asyncio.Task[None]"]:
        running = []
        for controller in self._controllers.values():
            self._logger.info("Starting controller", controller=controller.name)
            running.append(group.create_task(controller.run(), name=controller.name))
            self._running.add(controller.name)
            interval = self._config.generic.controller_start_interval
            if interval and not stopping.done():
                delay = interval * (1 + self._rng.random())
                await _first(asyncio.sleep(delay), stopping)
        return running

    async def _shut_down(self, running: Sequence["asyncio.Task[None]"]) -> None:
        self._logger.info("Shutting down")
        self._stopping = True
        self._running.clear()
        for controller in self._controllers.values():
            controller.stop()
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


def _same(problem: str | None) -> str | None:
    return problem


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


async def _first(
    work: Coroutine[None, None, None], stopping: "asyncio.Task[object]"
) -> bool:
    """Await `work` unless told to stop before; tell whether it was done."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    if task.cancelled():
        return False
    task.result()
    return not stopping.done()
