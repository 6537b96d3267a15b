"""The HTTPS server: every request is authenticated, authorised, answered.

It answers /metrics, /configz, /flagz and /statusz itself.
"""

import errno
import os
import ssl
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from controller_manager.clock import Clock
from controller_manager.observability.exposition import exposing
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.manager import ServingCollectors
from controller_manager.options.config import Config
from controller_manager.options.gates import COMPONENT_FLAGZ, COMPONENT_STATUSZ
from controller_manager.options.parsing import configz

from . import zpages
from .answers import COMMON_HEADERS, in_turns, leave_out_server
from .authentication import Authenticator
from .authorization import Access, Authorizer, Handler
from .certificates import Certificates, ServingError
from .connection import Connection, ConnectionLimits, Listener, QuietLogger, bind
from .debug_endpoints import DebugEndpoints
from .health_endpoints import HealthEndpoints
from .main_loop import ANSWER_PATIENCE, MainLoopBusy
from .pages import Pages
from .zpages import TEXT, preferred

_OPEN_METRICS: Final = "application/openmetrics-text"
_METRICS: Final = {TEXT: "0.0.4", _OPEN_METRICS: "1.0.0"}
"""The versions of the formats of metrics, by media type; the first is upstream's."""

_LISTED: Final = ("/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz")


@dataclass(eq=False)
class Endpoints:
    """Answers with the metrics, the config, the flags and the state of the daemon."""

    config: Config
    pages: Pages
    health: HealthEndpoints
    clock: Clock

    def routes(self) -> list[web.RouteDef]:
        """Return the routes. Go's handlers take any method."""
        features = self.config.features
        routes = [
            web.route("*", "/metrics", self._metrics),
            web.route("*", "/metrics/slis", self._slis),
            web.route("*", "/configz", self._configz),
        ]
        if features.is_enabled(COMPONENT_FLAGZ):
            routes.append(web.route("*", "/flagz", self._flagz))
        if features.is_enabled(COMPONENT_STATUSZ):
            routes.append(web.route("*", "/statusz", self._statusz))
        return routes

    async def _metrics(self, request: web.Request) -> web.Response:
        # While the main loop is busy, its metrics show their last values, and
        # event_loop_stalled_seconds says so.
        with suppress(MainLoopBusy):
            await self.pages.main.ask(self.pages.before_scrape, ANSWER_PATIENCE)
        return await self._exposed(request, self.pages.registry)

    async def _slis(self, request: web.Request) -> web.Response:
        if request.method == "DELETE":
            self.health.reset()
            return web.Response(text="metrics reset\n")
        return await self._exposed(request, self.health.registry)

    async def _exposed(
        self, request: web.Request, registry: CollectorRegistry
    ) -> web.Response:
        media_type = preferred(request.headers.get("Accept", ""), _METRICS)
        text = exposing(
            registry,
            self.config.disabled_metrics,
            open_metrics=media_type == _OPEN_METRICS,
        )
        version = _METRICS[media_type]
        content_type = f"{media_type}; version={version}; charset=utf-8"
        return web.Response(
            body=await in_turns(text), headers={"Content-Type": content_type}
        )

    async def _configz(self, _: web.Request) -> web.Response:
        return web.Response(body=configz(self.config), content_type="application/json")

    async def _flagz(self, request: web.Request) -> web.Response:
        flags = self.config.flags
        return zpages.answer(
            request,
            self.pages.component,
            "Flagz",
            lambda: zpages.flagz_lines(flags),
            lambda: zpages.flagz_fields(flags),
        )

    async def _statusz(self, request: web.Request) -> web.Response:
        started, now = self.pages.started_at, self.clock.now()
        versions = self.config.emulated_version, self.pages.version
        facts = started, now, self._paths(), *versions
        return zpages.answer(
            request,
            self.pages.component,
            "Statusz",
            lambda: zpages.statusz_lines(*facts),
            lambda: zpages.statusz_fields(*facts),
        )

    def _paths(self) -> list[str]:
        """Return the first segments of the paths that upstream lists.

        Upstream registers ``/debug`` as unlisted, and ``/statusz`` after the list is
        made.
        """
        return [
            path
            for path in _LISTED
            if path != "/flagz" or self.config.features.is_enabled(COMPONENT_FLAGZ)
        ]


_REMEDY: Final = (
    "choose another --secure-port or --bind-address, or port 0 to serve nothing"
)


async def listen(
    runner: web.BaseRunner,
    host: str,
    port: int,
    mend: str,
    tls: ssl.SSLContext | None = None,
) -> int:
    """Serve HTTP on `port` (0 for any free port); return the port.

    If that fails, the runner is cleaned up and ServingError is raised, whose message
    ends with the remedy `mend`.
    """
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
    except OSError as error:
        await runner.cleanup()
        raise cannot_serve(host, port, error, mend) from error
    return int(runner.addresses[0][1])


def cannot_serve(host: str, port: int, error: OSError, mend: str) -> ServingError:
    """Return the error for a port that cannot be bound, with the remedy `mend`."""
    why = os.strerror(error.errno) if error.errno else str(error)
    if error.errno == errno.EADDRINUSE:
        why = "the port is in use"
    return ServingError(f"cannot serve on {host}:{port}: {why}; {mend}")


class Server:
    """Serves ``/healthz``, ``/metrics`` and the other endpoints until it is closed.

    Each request must be authenticated and authorised (see `authentication` and
    `authorization`). Only authorised users get 404 for a path that does not exist.
    """

    def __init__(
        self,
        config: Config,
        pages: Pages,
        certificates: Certificates,
        authenticator: Authenticator,
        authorizer: Authorizer,
        clock: Clock,
        logger: Logger,
        limits: ConnectionLimits | None = None,
    ) -> None:
        """Take the configuration, the pages, and the checks of each request.

        The default of `limits` is `ConnectionLimits.for_this_process`.
        """
        self._limits = limits or ConnectionLimits.for_this_process()
        self._counters = ServingCollectors(pages.registry)
        self._listener: Listener | None = None
        self._logger = logger
        self._config = config
        self._certificates = certificates
        self._access = Access(authenticator, authorizer)
        health = HealthEndpoints(pages, self._access)
        debugging = DebugEndpoints(pages, logger, self._limits.body)
        app = web.Application(
            middlewares=[self._handle], client_max_size=self._limits.body_bytes
        )
        app.on_response_prepare.append(leave_out_server)
        # The user's right to a path, and to a method, is checked before.
        app.add_routes(health.routes())
        app.add_routes(Endpoints(config, pages, health, clock).routes())
        app.add_routes(debugging.routes())
        if config.generic.profiling:
            app.add_routes(debugging.profiling_routes())
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=1.0,
            handler_cancellation=True,
            logger=QuietLogger(logger),
        )

    @property
    def port(self) -> int:
        """The port in use; before the start, the configured port."""
        if self._listener is None:
            return self._config.serving.port
        return self._listener.port

    async def start(self) -> None:
        """Start to listen; raises ServingError if that fails."""
        serving = self._config.serving
        host, port = serving.bind_address, serving.port
        await self._runner.setup()
        try:
            sock = bind(host, port, share_port=serving.permit_port_sharing)
        except OSError as error:
            await self._runner.cleanup()
            raise cannot_serve(host, port, error, _REMEDY) from error
        self._listener = Listener(
            sock,
            self._certificates.for_connection,
            self._connection,
            self._limits,
            self._counters,
            self._logger,
        )

    def _connection(self) -> Connection:
        server = self._runner.server
        assert server is not None  # noqa: S101 - set up before anything is accepted
        return Connection(server, self._limits, self._logger)

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._listener is not None:
            await self._listener.close()
        await self._runner.cleanup()

    @web.middleware
    async def _handle(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        if isinstance(request.protocol, Connection):
            request.protocol.begin()
        try:
            answer = await self._access.answer(request, handler)
        except web.HTTPNotFound:
            answer = web.Response(status=404, text="404 page not found\n")
        except web.HTTPMethodNotAllowed:
            answer = web.Response(status=405, text="Method Not Allowed\n")
        except web.HTTPRequestEntityTooLarge:
            answer = web.Response(status=413, text="Request Entity Too Large\n")
        except MainLoopBusy as busy:
            answer = web.Response(status=503, text=f"{busy}\n")
        except Exception as error:
            self._logger.error("Request failed", path=request.path, exc_info=error)
            answer = web.Response(status=500, text="Internal Server Error\n")
        answer.headers.update(COMMON_HEADERS)
        return answer
