"""Start-up and shut-down, in order, and nothing else."""

import asyncio
import gc
import random
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, disable_created_metrics

from controller_manager.client.client import Client
from controller_manager.client.discovery import served_resources
from controller_manager.client.errors import APIError, ProtocolError, TransportError
from controller_manager.client.events import EventBroadcaster
from controller_manager.client.ratelimit import RequestLimiter
from controller_manager.client.transport import Transport
from controller_manager.clock import Clock
from controller_manager.informers.factory import InformerFactory
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics import (
    ClientCollectors,
    QueueCollectors,
    ReplicaSetCollectors,
    SyncCollectors,
    register_process,
)
from controller_manager.options import Config
from controller_manager.registry import Descriptor, select
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.worker import Workers
from controller_manager.serving.server import HealthCheck, Server
from controller_manager.version import VERSION

USER_AGENT: Final = f"controller-manager/v{VERSION}"

_POLL: Final = 1.0
_EVENT_FLUSH: Final = 3.0


class StartError(Exception):
    """The daemon cannot start; the message says why and what to do."""


class ControllerManager:
    """The daemon: from a config and a transport to running controllers.

    The order is upstream's: serve health and metrics, wait for the API server,
    see which resources it has, make the controllers, start the informers, and
    once their caches are synced the workers, one controller after the other.
    """

    def __init__(
        self,
        config: Config,
        transport: Transport,
        *,
        clock: Clock,
        rng: random.Random,
        logger: Logger,
        registry: CollectorRegistry | None = None,
    ) -> None:
        """Take what to run with; the transport stays the caller's to close."""
        self._config = config
        self._transport = transport
        self._clock = clock
        self._rng = rng
        self._logger = logger
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry or CollectorRegistry()
        self._queue_metrics = QueueCollectors(self._registry)
        self._sync_metrics = SyncCollectors(self._registry)
        self._replica_set_metrics = ReplicaSetCollectors(self._registry)
        self._client_metrics = ClientCollectors(self._registry, transport.host)
        register_process(self._registry)
        self._controllers: list[Workers] = []
        self._broadcasters: list[EventBroadcaster] = []
        self._running: set[str] = set()
        self._factory = InformerFactory(
            self._client(),
            min_resync_period=config.generic.min_resync_period,
            stream_lists=config.features.watch_list_client,
            rng=rng,
            logger=logger.bind(component="informers"),
        )
        self.started = asyncio.Event()
        self.server: Server | None = None

    def _client(self) -> Client:
        """Return a client with its own rate limit, as each controller has."""
        client = self._config.client
        limiter = RequestLimiter(client.qps, client.burst, self._clock)
        return Client(self._transport, self._clock, limiter, self._client_metrics)

    @property
    def is_idle(self) -> bool:
        """Whether no key waits or is being worked on, delayed ones aside."""
        return all(controller.queue.is_idle for controller in self._controllers)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then finish what is in progress.

        Raises StartError if the API server cannot be used, ServingError if the
        port cannot, and whatever a defect raises.
        """
        for warning in self._config.warnings:
            self._logger.warning(warning)
        await self._serve()
        try:
            await self._wait_for_api_server(stop)
            if not stop.is_set():
                await self._run_controllers(stop)
        finally:
            if self.server is not None:
                await self.server.close()

    # Serving.

    async def _serve(self) -> None:
        port = self._config.serving.port
        if port == 0:
            return
        self.server = Server(port, self._registry, self._checks, self._refresh)
        await self.server.start()
        self._logger.info("Serving health and metrics", port=self.server.port)

    def _checks(self) -> Mapping[str, HealthCheck]:
        return {
            controller.name: partial(self._check, controller)
            for controller in self._controllers
        }

    def _check(self, controller: Workers) -> str | None:
        if controller.name in self._running and not controller.is_healthy:
            return "workers have died"
        return None

    def _refresh(self) -> None:
        for controller in self._controllers:
            controller.queue.report_running()

    # Start-up.

    async def _wait_for_api_server(self, stop: asyncio.Event) -> None:
        client = self._client()
        patience = self._config.generic.api_server_timeout
        deadline = self._clock.monotonic() + patience
        while not stop.is_set():
            problem = await _health_problem(client)
            if problem is None:
                return
            if self._clock.monotonic() + _POLL > deadline:
                msg = (
                    "failed to wait for apiserver being healthy within "
                    f"{patience:g} s: {problem}"
                )
                raise StartError(msg)
            self._logger.v(2).info("API server not healthy yet", err=problem)
            await asyncio.sleep(_POLL)

    async def _available(self, wanted: Sequence[Descriptor]) -> list[Descriptor]:
        """Return the controllers whose resources the API server has."""
        client = self._client()
        served: dict[str, frozenset[str] | None] = {}
        available = []
        for descriptor in wanted:
            missing = []
            for resource in descriptor.required:
                version = resource.api_version
                if version not in served:
                    served[version] = await _discovered(client, version)
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

    def _context(self, descriptor: Descriptor) -> ControllerContext:
        logger = self._logger.bind(component=descriptor.name)
        # Events have a rate limit of their own: a burst of them must not make
        # syncs wait.
        broadcaster = EventBroadcaster(
            self._client(),
            descriptor.component,
            clock=self._clock,
            rng=self._rng,
            logger=logger,
        )
        self._broadcasters.append(broadcaster)
        return ControllerContext(
            name=descriptor.name,
            config=self._config,
            client=self._client(),
            informers=self._factory,
            recorder=broadcaster,
            clock=self._clock,
            rng=self._rng,
            logger=logger,
            queue_metrics=self._queue_metrics,
            sync_metrics=self._sync_metrics,
            replica_set_metrics=self._replica_set_metrics,
        )

    # Running.

    async def _run_controllers(self, stop: asyncio.Event) -> None:
        wanted = select(self._config.generic.controllers)
        for descriptor in await self._available(wanted):
            init = descriptor.load()
            self._controllers.append(init(self._context(descriptor)))
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(broadcaster.run(), name="events")
                for broadcaster in self._broadcasters
            ]
            background += self._factory.start(group)
            stopping = asyncio.create_task(stop.wait(), name="stop")
            try:
                if await _first(self._factory.wait_for_sync(), stopping):
                    self._synced()
                    await self._run_workers(group, stopping)
            finally:
                stopping.cancel()
                for task in background:
                    task.cancel()

    def _synced(self) -> None:
        # What is cached now lives long: keep it out of every later collection.
        gc.collect()
        gc.freeze()
        self._logger.info("Caches are synced")

    async def _run_workers(
        self, group: asyncio.TaskGroup, stopping: "asyncio.Task[object]"
    ) -> None:
        running: list[asyncio.Task[None]] = []
        for controller in self._controllers:
            self._logger.info("Starting controller", controller=controller.name)
            running.append(group.create_task(controller.run(), name=controller.name))
            self._running.add(controller.name)
            interval = self._config.generic.controller_start_interval
            if interval and not stopping.done():
                delay = interval * (1 + self._rng.random())
                await _first(asyncio.sleep(delay), stopping)
        self.started.set()
        await stopping
        await self._shut_down(running)

    async def _shut_down(self, running: Sequence["asyncio.Task[None]"]) -> None:
        self._logger.info("Shutting down")
        self._running.clear()
        for controller in self._controllers:
            controller.stop()
        timeout = self._config.generic.controller_shutdown_timeout
        if running:
            _, late = await asyncio.wait(running, timeout=timeout)
            for task in late:
                self._logger.warning("Syncs cut short", controller=task.get_name())
                task.cancel()
        flushing = [
            asyncio.create_task(broadcaster.flush())
            for broadcaster in self._broadcasters
        ]
        if flushing:
            _, unwritten = await asyncio.wait(flushing, timeout=_EVENT_FLUSH)
            for flush in unwritten:
                flush.cancel()


async def _health_problem(client: Client) -> str | None:
    try:
        answer = await client.raw("GET", "/healthz")
    except TransportError as error:
        return str(error)
    if answer.status == HTTPStatus.OK:
        return None
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"/healthz answered {answer.status}: check the credentials"
    return f"/healthz answered {answer.status}"


async def _discovered(client: Client, api_version: str) -> frozenset[str] | None:
    try:
        return await served_resources(client, api_version)
    except (APIError, TransportError, ProtocolError) as error:
        msg = f"failed to discover the resources of {api_version}: {error}"
        raise StartError(msg) from error


async def _first(
    work: Coroutine[None, None, None], stopping: "asyncio.Task[object]"
) -> bool:
    """Await `work` unless told to stop before; tell whether it was done."""
    task = asyncio.create_task(work)
    await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
        return not stopping.done()
    task.cancel()
    return False
