"""The HTTPS server of a daemon, and its background tasks."""

import asyncio
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.transport import Transport
from controller_manager.clock import Clock
from controller_manager.observability.defects import Defects
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.collectors import Collectors
from controller_manager.observability.metrics.manager import observe_lag
from controller_manager.options.config import Config
from controller_manager.runtime.worker import until_done
from controller_manager.serving.authentication import Authenticator
from controller_manager.serving.authorization import Authorizer
from controller_manager.serving.certificates import Certificates, ServingError
from controller_manager.serving.pages import Pages
from controller_manager.serving.reviews import ReviewLimiter
from controller_manager.serving.server import Server

from .control_loop import ControlLoop
from .runnable import Lifetime, Runnable


@dataclass(slots=True)
class ServerGroup(Runnable):
    """Serves endpoints, watches the authentication settings, measures the event loop.

    It runs first and stops last, so that its endpoints answer while the daemon waits
    for the API server or for its last syncs. The server runs beside the main loop, so
    that they answer while the controllers block that. The connections review who may
    read the pages.
    """

    config: Config
    connections: Connections
    pages: Pages
    control_loop: ControlLoop
    _: KW_ONLY
    clock: Clock
    metrics: Collectors
    logger: Logger
    server: Server | None = field(init=False, default=None)
    """The HTTPS server once it runs; `None` before, and without a port."""
    _defects: Defects = field(init=False)
    _tasks: list[asyncio.Task[None]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        """Count the defects of the tasks."""
        self._defects = Defects(self.logger, self.metrics.defects.count)

    async def run(self, life: Lifetime) -> None:
        """Start to serve.

        Raises ServingError if the port or a certificate cannot be used.
        """
        failed = partial(self._defects.report, "event-loop-lag")
        observing = partial(observe_lag, self.metrics.loop)
        measuring = until_done(observing, failed, life.stop)
        self._tasks.append(
            life.tasks.create_task(measuring, name="event-loop-lag"),
        )
        if self.config.serving.port == 0:
            return
        authenticator = await self.control_loop.run(self._serve)
        following = partial(self._follow_settings, authenticator)
        self._tasks.append(
            life.tasks.create_task(
                self.control_loop.run(following), name="authentication-settings"
            )
        )

    # Beside the main loop

    async def _serve(self) -> Authenticator:
        """Start the server; return the part that decides who sends a request."""
        authenticator = self._authenticator()
        self.server = self._make_server(authenticator)
        await self.server.start()
        self.logger.info(
            "Serving securely",
            address=f"{self.config.serving.bind_address}:{self.server.port}",
        )
        return authenticator

    async def _follow_settings(self, authenticator: Authenticator) -> None:
        """Follow the cluster's settings in spite of defects; cancelled at the end.

        Raises ServingError, which ends the process.
        """
        failed = partial(self._defects.report, "authentication-settings")
        following = authenticator.poll_cluster_settings
        await until_done(following, failed, asyncio.Event(), fatal=(ServingError,))

    def _authenticator(self) -> Authenticator:
        transport = self.connections.authentication
        return Authenticator(
            self.config.authentication,
            self._client(transport, ReviewLimiter(self.clock)),
            lookup=self._client(transport),
            clock=self.clock,
            logger=self.logger.bind(component="serving"),
        )

    def _make_server(self, authenticator: Authenticator) -> Server:
        logger = self.logger.bind(component="serving")
        authorizer = Authorizer(
            self.config.authorization,
            self._client(self.connections.authorization, ReviewLimiter(self.clock)),
            clock=self.clock,
            logger=logger,
        )
        certificates = Certificates(
            self.config.serving, authenticator.authorities.bundle, logger=logger
        )
        self.metrics.certificates.show("serving", certificates.current)
        return Server(
            self.config,
            self.pages,
            certificates,
            authenticator,
            authorizer,
            self.clock,
            logger,
        )

    def _client(
        self, transport: Transport | None, limiter: ReviewLimiter | None = None
    ) -> Client | None:
        if transport is None:
            return None
        return Client(transport, self.clock, limiter, self.metrics.client)

    async def stop(self) -> None:
        """Finish the requests that are in progress, then close the port."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.server is not None:
            await self.control_loop.run(self.server.close)
