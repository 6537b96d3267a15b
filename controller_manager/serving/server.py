"""A small HTTP server on the loopback interface."""

import errno
import ssl
from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from controller_manager.observability.metrics import expose

_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

HealthCheck = Callable[[], str | None]
"""Returns what is wrong, `None` if nothing is."""


class ServingError(Exception):
    """The port cannot be served on; the message says why."""


async def listen(
    runner: web.AppRunner,
    host: str,
    port: int,
    mend: str,
    tls: ssl.SSLContext | None = None,
) -> int:
    """Serve an application on `port` (0 for any free one); return the port.

    Raises ServingError, which ends in `mend`, if that is not possible; then
    the runner is cleaned up.
    """
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
    except OSError as error:
        await runner.cleanup()
        why = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            why = "the port is in use"
        msg = f"cannot serve on {host}:{port}: {why}; {mend}"
        raise ServingError(msg) from error
    return int(runner.addresses[0][1])


class Server:
    """Serves until closed.

    ``/healthz`` answers 200 ``ok`` if every check passes, else 500 with the
    failing ones; ``?verbose`` lists all. ``/metrics`` answers with the
    registry, refreshed by `before_scrape`.
    """

    def __init__(
        self,
        port: int,
        registry: CollectorRegistry,
        checks: Callable[[], Mapping[str, HealthCheck]],
        before_scrape: Callable[[], None],
        host: str = "127.0.0.1",
    ) -> None:
        """Take where to listen and what to answer with."""
        self._host = host
        self._port = port
        self._registry = registry
        self._checks = checks
        self._before_scrape = before_scrape
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None)

    @property
    def port(self) -> int:
        """The port in use, once started."""
        addresses = self._runner.addresses
        return int(addresses[0][1]) if addresses else self._port

    async def start(self) -> None:
        """Listen; raises ServingError if that is not possible."""
        mend = "choose another --secure-port, or 0 to serve nothing"
        await listen(self._runner, self._host, self._port, mend)

    async def close(self) -> None:
        """Stop listening and drop connections."""
        await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        results = {name: check() for name, check in self._checks().items()}
        failed = [name for name, problem in results.items() if problem]
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [
            f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok"
            for name, problem in results.items()
        ]
        lines.append(f"healthz check {'failed' if failed else 'passed'}")
        return web.Response(status=500 if failed else 200, text="\n".join(lines) + "\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        self._before_scrape()
        body = expose(self._registry)
        return web.Response(body=body, headers={"Content-Type": _METRICS_TYPE})
