"""The webhooks of a daemon: served by every replica, whether it leads or not."""

import asyncio
import socket
import ssl
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from controller_manager.client.builder import ClientBuilder
from controller_manager.client.rest.errors import APIError, TransportError
from controller_manager.clock import Clock
from controller_manager.observability.defects import Defects
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.collectors import Collectors
from controller_manager.options.config import Config
from controller_manager.runtime.admission import WebhookOptions, webhook_service
from controller_manager.runtime.registry import Registry
from controller_manager.runtime.worker import until_done
from controller_manager.serving.certificates import Pair
from controller_manager.serving.connection import bind
from controller_manager.serving.server import cannot_serve
from controller_manager.webhooks.certificates import WebhookCertificates
from controller_manager.webhooks.registration import Registration
from controller_manager.webhooks.reviews import Reviews
from controller_manager.webhooks.server import WebhookCollectors, WebhookServer

from .runnable import Checks, Lifetime, Runnable

_PERIOD: Final = 10.0
"""Seconds between two looks at the secret and at the configurations."""

_RETRY: Final = 1.0
"""Seconds until the next look after a problem."""


@dataclass(slots=True)
class WebhookGroup(Runnable):
    """Serves the webhooks of a build, and keeps certificate and configurations right.

    It runs before the caches, which may need a conversion, and it is no part of what
    the lease fences: all replicas write the same.
    """

    build: Registry
    config: Config
    clients: ClientBuilder
    _: KW_ONLY
    clock: Clock
    metrics: Collectors
    logger: Logger
    _registration: Registration = field(init=False)
    _certificates: WebhookCertificates = field(init=False)
    _server: WebhookServer = field(init=False)
    _defects: Defects = field(init=False)
    _tls: tuple[Pair, ssl.SSLContext] | None = field(init=False, default=None)
    _trusted: bytes = field(init=False, default=b"")
    _sock: socket.socket | None = field(init=False, default=None)
    _problem: str = field(init=False, default="the secret has not been read yet")
    _was_registered: bool = field(init=False, default=False)
    _task: "asyncio.Task[None] | None" = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Make the parts; nothing is served yet."""
        options = self.config.of(WebhookOptions)
        namespace = self.config.generic.leader_election.resource_namespace
        self._registration = Registration(self.build, namespace, options.url)
        self._certificates = WebhookCertificates(
            self.clients.manager(),
            namespace,
            webhook_service(self.build.component),
            urlsplit(options.url).hostname or self._registration.host,
            self.clock,
            self.logger,
        )
        self._defects = Defects(self.logger, self.metrics.defects.count)
        collectors = self.metrics.of(WebhookCollectors)
        reviews = Reviews(
            self.build,
            lambda each: self.clients.controller(each.name, each.account),
            self._defects,
            collectors.panics.inc,
        )
        self._server = WebhookServer(reviews, collectors, self._defects, self.logger)
        self.metrics.certificates.show("webhook", self._shown)

    async def run(self, life: Lifetime) -> None:
        """Listen, and begin to follow the secret; raises ServingError."""
        port = self.config.of(WebhookOptions).port
        host = self.config.serving.bind_address
        try:
            self._sock = bind(host, port)
        except OSError as error:
            mend = "choose another --webhook-port or --bind-address"
            raise cannot_serve(host, port, error, mend) from error
        failed = partial(self._defects.report, "webhooks")
        following = until_done(partial(self._follow, self._sock), failed, life.stop)
        self._task = life.tasks.create_task(following, name="webhooks")
        self.logger.info("Serving webhooks", address=f"{host}:{port}")

    async def _follow(self, sock: socket.socket) -> None:
        while True:
            problem = await self._look()
            if not self._server.is_serving and self._tls is not None:
                await self._server.start(sock, self._settings)
            if problem and problem != self._problem:
                self.logger.warning("Webhooks are not registered", err=problem)
            self._problem = problem
            self._was_registered |= not problem
            await asyncio.sleep(_RETRY if problem else _PERIOD)

    async def _look(self) -> str:
        """Read the secret, renew the certificate, register; return the problem.

        The configurations are read before the secret, and are written only as they
        were read: a process that was paused here does not bring an old authority back.
        """
        client, certificates = self._certificates.client, self._certificates
        try:
            found = await self._registration.read(client)
            await certificates.refresh(self._trusted)
            served, authorities = certificates.served, certificates.authorities
            if served is None:
                return "the secret was changed by others at the same time"
            problems = await self._registration.write(client, found, authorities)
            if self._tls is None or self._tls[0] != served:
                self._tls = served, served.ssl_context(self.config.serving)
        except (APIError, TransportError) as error:
            return str(error)
        self._trusted = b"" if problems else authorities
        return "; ".join(problems)

    def _settings(self) -> ssl.SSLContext:
        assert self._tls is not None  # noqa: S101 - it does not serve before
        return self._tls[1]

    def _shown(self) -> dict[str, bytes]:
        if self._tls is None:
            return {}
        return {self._certificates.name: self._tls[0].certificate}

    def ready(self) -> Checks:
        """Return a check: whether webhooks are served, and have been registered.

        A later problem of one registration must not take the others off the network.
        """
        return {"webhooks": lambda: None if self._was_registered else self._problem}

    async def stop(self) -> None:
        """Answer the requests in progress, then close the port."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._server.close()
        if self._sock is not None:
            self._sock.close()
