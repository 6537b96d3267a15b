"""The HTTPS server: every request is authenticated, authorised, answered."""

import asyncio
import errno
import os
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from controller_manager.clock import Clock
from controller_manager.observability.exposition import exposing
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.serving import ServingCollectors
from controller_manager.observability.slis import HealthcheckCollectors
from controller_manager.options.config import Config
from controller_manager.options.gates import COMPONENT_FLAGZ, COMPONENT_STATUSZ
from controller_manager.options.parsing import configz
from controller_manager.serving import debug, debug_flags, zpages
from controller_manager.serving.answers import status_answer
from controller_manager.serving.authentication import Authenticator, Refused
from controller_manager.serving.authorization import Authorizer, ReviewError
from controller_manager.serving.certificates import Certificates, ServingError
from controller_manager.serving.connection import Connection, QuietLogger
from controller_manager.serving.handshakes import HandshakeLimiter
from controller_manager.serving.health import (
    HealthCheck,
    installed,
    probe,
    results,
)
from controller_manager.serving.limits import ConnectionLimits
from controller_manager.serving.listener import Listener, bind
from controller_manager.serving.main_loop import (
    ANSWER_PATIENCE,
    LastAnswer,
    MainLoop,
    MainLoopBusy,
    SameLoop,
)
from controller_manager.serving.reviews import TooManyReviews
from controller_manager.serving.streaming import Pieces, in_main, in_turns, stream
from controller_manager.serving.tls import CLIENT, ClientCertificate, TLSProtocol
from controller_manager.serving.users import User

_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_REMEDY: Final = (
    "choose another --secure-port or --bind-address, or port 0 to serve nothing"
)
_METRICS: Final = "/metrics"
_LISTED: Final = ("/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz")
_REASONS_TIMEOUT: Final = 1.0
"""Seconds that a failing probe waits for the review whether its user may see why."""
_COMMON_HEADERS: Final = {
    "Cache-Control": "no-cache, private",
    "X-Content-Type-Options": "nosniff",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
AnswerT = TypeVar("AnswerT")
Results = Mapping[str, HealthCheck]
Checks = Callable[[], Results]
DebugPage = Callable[[Mapping[str, list[str]]], tuple[str, Pieces]]
DebugPages = Mapping[str, DebugPage]
"""Functions by page name; each takes a query and returns media type and pieces."""


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
        raise _cannot_serve(host, port, error, mend) from error
    return int(runner.addresses[0][1])


def _cannot_serve(host: str, port: int, error: OSError, mend: str) -> ServingError:
    why = os.strerror(error.errno) if error.errno else str(error)
    if error.errno == errno.EADDRINUSE:
        why = "the port is in use"
    return ServingError(f"cannot serve on {host}:{port}: {why}; {mend}")


def _no_checks() -> Mapping[str, HealthCheck]:
    return {}


@dataclass(frozen=True, slots=True)
class Pages:
    """The data to serve; the functions are called for each request.

    The `main` loop calls them. Only `beside` is called in the loop of the server: these
    checks of /healthz and /livez replace the same ones of `healthz`, so they are right
    while the main loop is busy.
    """

    healthz: Checks
    readyz: Checks
    registry: CollectorRegistry
    before_scrape: Callable[[], None]
    debug: Callable[[], Mapping[str, DebugPages]]
    key_reports: Callable[[str, str], Sequence[msgspec.Struct] | None]
    """Returns the reports about a key of a controller, `None` without that one."""
    started_at: datetime
    main: MainLoop = field(default_factory=SameLoop)
    beside: Checks = _no_checks
    preview: DebugPage | None = None
    """The page ``/debug/preview`` of a preview."""


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
        self._pages = pages
        self._certificates = certificates
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._clock = clock
        self._profiler = debug.Profiler()
        self._healthchecks = HealthcheckCollectors()
        self._alive = _last_results(pages.main, pages.healthz)
        self._ready = _last_results(pages.main, pages.readyz)
        # Each request is handled in its own task, which has its own context.
        self._user: ContextVar[User] = ContextVar("user")
        self._app = web.Application(middlewares=[self._handle])
        self._add_routes(self._app)
        if config.generic.profiling:
            self._add_debugging(self._app)
        self._runner = web.AppRunner(
            self._app,
            access_log=None,
            shutdown_timeout=1.0,
            handler_cancellation=True,
            logger=QuietLogger(logger),
        )

    def _add_routes(self, app: web.Application) -> None:
        # Go's handlers take any method. That the user may use it is checked before.
        app.router.add_route("*", "/healthz", self._healthz)
        app.router.add_route("*", "/livez", self._livez)
        app.router.add_route("*", "/readyz", self._readyz)
        app.router.add_route("*", "/{probe:healthz|livez|readyz}/{check}", self._check)
        app.router.add_route("*", _METRICS, self._metrics)
        app.router.add_route("*", f"{_METRICS}/slis", self._slis)
        app.router.add_route("*", "/configz", self._configz)
        features = self._config.features
        if features.is_enabled(COMPONENT_FLAGZ):
            app.router.add_route("*", "/flagz", self._flagz)
        if features.is_enabled(COMPONENT_STATUSZ):
            app.router.add_route("*", "/statusz", self._statusz)
        app.router.add_get(
            "/debug/controllers/{controller}/{page}", self._debug_controller
        )
        app.router.add_get(
            "/debug/controllers/{controller}/keys/{key:.+}", self._debug_key
        )
        if self._pages.preview is not None:
            app.router.add_get("/debug/preview", self._debug_preview)

    def _add_debugging(self, app: web.Application) -> None:
        root = "/debug/pprof"
        app.router.add_route("*", root, self._debug_root)
        app.router.add_get(f"{root}/", self._debug_index)
        app.router.add_get(f"{root}/goroutine", self._debug_tasks)
        app.router.add_get(f"{root}/profile", self._debug_profile)
        app.router.add_get(f"{root}/heap", self._debug_memory)
        app.router.add_get(f"{root}/cmdline", self._debug_command)
        app.router.add_route("*", "/debug/flags/v", self._debug_verbosity)
        for path in ("/debug/flags", "/debug/flags/{other:.*}"):
            app.router.add_route("*", path, self._debug_flags)

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
            raise _cannot_serve(host, port, error, _REMEDY) from error
        self._listener = Listener(
            sock,
            self._encrypted,
            self._connection,
            self._limits,
            HandshakeLimiter(self._limits, self._clock),
            self._counters,
            self._logger,
        )

    def _encrypted(self, protocol: asyncio.Protocol) -> TLSProtocol:
        tls = self._certificates.for_connection()
        return TLSProtocol(tls, protocol, self._limits)

    def _connection(self, closed: Callable[[Connection], None]) -> Connection:
        server = self._runner.server
        assert server is not None  # noqa: S101 - set up before anything is accepted
        return Connection(server, self._limits, closed, self._logger)

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._listener is not None:
            await self._listener.close()
        await self._runner.cleanup()

    # Authentication and authorisation

    @web.middleware
    async def _handle(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        if isinstance(request.protocol, Connection):
            request.protocol.begin()
        try:
            answer = await self._authorized(request, handler)
        except web.HTTPNotFound:
            answer = web.Response(status=404, text="404 page not found\n")
        except web.HTTPMethodNotAllowed:
            answer = web.Response(status=405, text="Method Not Allowed\n")
        except MainLoopBusy as busy:
            answer = web.Response(status=503, text=f"{busy}\n")
        except Exception as error:
            self._logger.error("Request failed", path=request.path, exc_info=error)
            answer = web.Response(status=500, text="Internal Server Error\n")
        answer.headers.update(_COMMON_HEADERS)
        return answer

    async def _authorized(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        headers = {
            name.lower(): "\n".join(request.headers.getall(name))
            for name in request.headers
        }
        try:
            client: ClientCertificate = request.get_extra_info(CLIENT)
            user = await self._authenticator.authenticate(
                headers, client.chain, is_foreign=client.is_foreign
            )
            refusal = await self._refusal(user, request.method.lower(), request.path)
        except Refused:
            return status_answer(request, HTTPStatus.UNAUTHORIZED, "Unauthorized")
        except TooManyReviews as error:
            answer = status_answer(request, HTTPStatus.TOO_MANY_REQUESTS, str(error))
            answer.headers["Retry-After"] = "1"
            return answer
        except ReviewError as error:
            text = f'Internal Server Error: "{request.path}": {error}\n'
            return web.Response(status=500, text=text)
        if refusal is not None:
            return status_answer(request, HTTPStatus.FORBIDDEN, refusal)
        if isinstance(request.protocol, Connection):
            request.protocol.admit()
        self._user.set(user)
        return await handler(request)

    async def _refusal(self, user: User, verb: str, path: str) -> str | None:
        decision = await self._authorizer.decide(user, verb, path)
        if decision.allowed:
            return None
        message = f'forbidden: User "{user.name}" cannot {verb} path "{path}"'
        return f"{message}: {decision.reason}" if decision.reason else message

    # Endpoints

    async def _healthz(self, request: web.Request) -> web.Response:
        return await self._answer_probe(request, "healthz", await self._liveness())

    async def _livez(self, request: web.Request) -> web.Response:
        return await self._answer_probe(request, "livez", await self._liveness())

    async def _readyz(self, request: web.Request) -> web.Response:
        return await self._answer_probe(request, "readyz", await self._ready.get())

    async def _liveness(self) -> Mapping[str, HealthCheck]:
        """Return the results of the checks; those of the main loop may be old."""
        return {**await self._alive.get(), **self._pages.beside()}

    async def _answer_probe(
        self, request: web.Request, name: str, checks: Mapping[str, HealthCheck]
    ) -> web.Response:
        health = probe(
            name,
            checks,
            verbose="verbose" in request.query,
            observe=lambda check, healthy: self._healthchecks.observe(
                check, name, healthy=healthy
            ),
            exclude=request.query.getall("exclude", []),
        )
        if health.healthy:
            return web.Response(text=health.text)
        may_know = await self._may_read_metrics(self._user.get())
        text = health.text if may_know else health.without_reasons
        return web.Response(status=500, text=text)

    async def _check(self, request: web.Request) -> web.Response:
        """Answer for one check; its caller may see why the check fails."""
        is_ready = request.match_info["probe"] == "readyz"
        checks = await (self._ready.get() if is_ready else self._liveness())
        check = installed(checks).get(request.match_info["check"])
        if check is None:
            raise web.HTTPNotFound
        problem = check()
        if problem:
            text = f"internal server error: {problem}\n"
            return web.Response(status=500, text=text)
        return web.Response(text="ok")

    async def _may_read_metrics(self, user: User) -> bool:
        """Tell whether `user` may read /metrics; no, if the review takes a second."""
        try:
            async with asyncio.timeout(_REASONS_TIMEOUT):
                decision = await self._authorizer.decide(user, "get", _METRICS)
        except (ReviewError, TimeoutError, TooManyReviews):
            return False
        return decision.allowed

    async def _metrics(self, _: web.Request) -> web.Response:
        # While the main loop is busy, its metrics show their last values, and
        # event_loop_stalled_seconds says so.
        with suppress(MainLoopBusy):
            await self._in_main(self._pages.before_scrape)
        return await self._exposed(self._pages.registry)

    async def _slis(self, request: web.Request) -> web.Response:
        if request.method == "DELETE":
            self._healthchecks.reset()
            return web.Response(text="metrics reset\n")
        return await self._exposed(self._healthchecks.registry)

    async def _exposed(self, registry: CollectorRegistry) -> web.Response:
        text = exposing(registry, self._config.disabled_metrics)
        return web.Response(
            body=await in_turns(text), headers={"Content-Type": _METRICS_TYPE}
        )

    async def _configz(self, _: web.Request) -> web.Response:
        return web.Response(body=configz(self._config), content_type="application/json")

    async def _flagz(self, request: web.Request) -> web.Response:
        flags = self._config.flags
        return zpages.answer(
            request,
            "Flagz",
            lambda: zpages.flagz_text(flags),
            lambda: zpages.flagz_fields(flags),
        )

    async def _statusz(self, request: web.Request) -> web.Response:
        started, now = self._pages.started_at, self._clock.now()
        facts = started, now, self._paths(), self._config.emulated_version
        return zpages.answer(
            request,
            "Statusz",
            lambda: zpages.statusz_text(*facts),
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
            if path != "/flagz" or self._config.features.is_enabled(COMPONENT_FLAGZ)
        ]

    async def _in_main(self, question: Callable[[], AnswerT]) -> AnswerT:
        """Return the answer of the main loop; raises MainLoopBusy."""
        return await self._pages.main.ask(question, ANSWER_PATIENCE)

    async def _debug_controller(self, request: web.Request) -> web.StreamResponse:
        named = request.match_info
        return await self._debug_page(
            request,
            lambda: self._pages.debug().get(named["controller"], {}).get(named["page"]),
        )

    async def _debug_preview(self, request: web.Request) -> web.StreamResponse:
        return await self._debug_page(request, lambda: self._pages.preview)

    async def _debug_page(
        self, request: web.Request, find: Callable[[], DebugPage | None]
    ) -> web.StreamResponse:
        """Answer with a page that the main loop finds and makes."""
        query = {name: request.query.getall(name) for name in request.query}
        if "application/json" in request.headers.get("accept", ""):
            query.setdefault("output", ["json"])

        def shown() -> tuple[str, Pieces] | None:
            page = find()
            return page(query) if page is not None else None

        found = await self._in_main(shown)
        if found is None:
            return web.Response(
                text="404 page not found\n", status=HTTPStatus.NOT_FOUND
            )
        media_type, pieces = found
        asked = in_main(self._pages.main, pieces)
        return await stream(request, media_type, asked, _COMMON_HEADERS)

    async def _debug_key(self, request: web.Request) -> web.Response:
        """Answer what a controller knows of one key: NAMESPACE/NAME, or NAME."""
        name, key = request.match_info["controller"], request.match_info["key"]
        reports = await self._in_main(lambda: self._pages.key_reports(name, key))
        if reports is None:
            raise web.HTTPNotFound
        answer = {"controller": name, "key": key, "queues": reports}
        body = msgspec.json.format(msgspec.json.encode(answer), indent=2) + b"\n"
        return web.Response(body=body, content_type="application/json")

    async def _debug_root(self, _: web.Request) -> web.Response:
        location = {"Location": "/debug/pprof/"}
        return web.Response(status=HTTPStatus.FOUND, headers=location)

    async def _debug_index(self, _: web.Request) -> web.Response:
        return web.Response(text=debug.INDEX, content_type="text/html")

    async def _debug_tasks(self, request: web.Request) -> web.StreamResponse:
        media_type = "text/plain; charset=utf-8"
        pieces = debug.tasks_of(self._pages.main)
        return await stream(request, media_type, pieces, _COMMON_HEADERS)

    async def _debug_profile(self, request: web.Request) -> web.Response:
        if request.query.get("debug", "0") != "0":
            return await _answer_profile(request, self._profiler.cpu_text, 30.0)
        return await _answer_profile(request, self._profiler.cpu, 30.0)

    async def _debug_memory(self, request: web.Request) -> web.Response:
        return await _answer_profile(request, self._profiler.memory, 0.0)

    async def _debug_flags(self, _: web.Request) -> web.Response:
        return web.Response(text=debug_flags.INDEX, content_type="text/html")

    async def _debug_verbosity(self, request: web.Request) -> web.Response:
        patience = self._limits.body
        return await debug_flags.put_verbosity(request, self._logger, patience)

    async def _debug_command(self, _: web.Request) -> web.Response:
        return web.Response(text="\0".join(sys.argv))


def _last_results(main: MainLoop, checks: Checks) -> LastAnswer[Results]:
    """Return the results of the checks now, and a way to ask for newer ones."""
    return LastAnswer(main, lambda: results(checks()), {"main-loop": _not_turned})


def _not_turned() -> str:
    return "the main event loop has not answered yet"


async def _answer_profile(
    request: web.Request,
    take: Callable[[float], Awaitable[str | bytes]],
    default: float,
) -> web.Response:
    given = request.query.get("seconds", str(default))
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= debug.MAX_SECONDS:
        limit = f"{debug.MAX_SECONDS:g}"
        return web.Response(
            status=400, text=f"seconds: must be from 0 to {limit}, not {given!r}\n"
        )
    try:
        profile = await take(seconds)
    except debug.Busy as error:
        return web.Response(status=409, text=f"{error}\n")
    if isinstance(profile, str):
        return web.Response(text=profile)
    return web.Response(
        body=profile,
        content_type="application/octet-stream",
        headers={"Content-Disposition": 'attachment; filename="profile"'},
    )
