"""The endpoints of the health checks: /healthz, /livez, /readyz, and single checks."""

import asyncio
from collections.abc import Mapping
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from controller_manager.observability.metrics.manager import HealthcheckCollectors

from .authorization import Access, ReviewError
from .health import HealthCheck, installed, probe, results
from .main_loop import LastAnswer, MainLoop
from .pages import Checks, Pages
from .reviews import TooManyReviews

_METRICS: Final = "/metrics"
_REASONS_TIMEOUT: Final = 1.0
"""Seconds that a failing probe waits for the review whether its user may see why."""


class HealthEndpoints:
    """Answers probes, and counts their results."""

    def __init__(self, pages: Pages, access: Access) -> None:
        self._access = access
        self._beside = pages.beside
        self._alive = _last_results(pages.main, pages.healthz)
        self._ready = _last_results(pages.main, pages.readyz)
        self._collectors = HealthcheckCollectors()

    def routes(self) -> list[web.RouteDef]:
        """Return the routes. Go's handlers take any method."""
        return [
            web.route("*", "/healthz", self._healthz),
            web.route("*", "/livez", self._livez),
            web.route("*", "/readyz", self._readyz),
            web.route("*", "/{probe:healthz|livez|readyz}/{check}", self._check),
        ]

    @property
    def registry(self) -> CollectorRegistry:
        """The results of the checks, as metrics."""
        return self._collectors.registry

    def reset(self) -> None:
        """Forget the results so far."""
        self._collectors.reset()

    async def _healthz(self, request: web.Request) -> web.Response:
        return await self._answer_probe(request, "healthz", await self._liveness())

    async def _livez(self, request: web.Request) -> web.Response:
        return await self._answer_probe(request, "livez", await self._liveness())

    async def _readyz(self, request: web.Request) -> web.Response:
        return await self._answer_probe(request, "readyz", await self._ready.get())

    async def _liveness(self) -> Mapping[str, HealthCheck]:
        """Return the results of the checks; those of the main loop may be old."""
        return {**await self._alive.get(), **self._beside()}

    async def _answer_probe(
        self, request: web.Request, name: str, checks: Mapping[str, HealthCheck]
    ) -> web.Response:
        health = probe(
            name,
            checks,
            verbose="verbose" in request.query,
            observe=lambda check, healthy: self._collectors.observe(
                check, name, healthy=healthy
            ),
            exclude=request.query.getall("exclude", []),
        )
        if health.healthy:
            return web.Response(text=health.text)
        may_know = await self._may_read_metrics()
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

    async def _may_read_metrics(self) -> bool:
        """Tell whether the user may read /metrics; no, if the review takes a second."""
        try:
            async with asyncio.timeout(_REASONS_TIMEOUT):
                return await self._access.may_get(_METRICS)
        except (ReviewError, TimeoutError, TooManyReviews):
            return False


def _last_results(
    main: MainLoop, checks: Checks
) -> LastAnswer[Mapping[str, HealthCheck]]:
    """Return the results of the checks now, and a way to ask for newer ones."""
    return LastAnswer(main, lambda: results(checks()), {"main-loop": _not_turned})


def _not_turned() -> str:
    return "the main event loop has not answered yet"
