"""The endpoints of the health checks: /healthz, /livez, /readyz, and single checks."""

import asyncio
from collections.abc import Mapping
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from controller_manager.observability.metrics.manager import HealthcheckCollectors

from .authorization import Access, ReviewError
from .health import HealthCheck, installed, probe, results
from .main_loop import LastAnswer
from .pages import Pages
from .reviews import TooManyReviews

_METRICS: Final = "/metrics"
_REASONS_TIMEOUT: Final = 1.0
"""Seconds that a failing probe waits for the review whether its user may see why."""


class HealthEndpoints:
    """Answers probes, and counts their results."""

    def __init__(self, pages: Pages, access: Access) -> None:
        self._access = access
        self._beside, main = pages.beside, pages.main
        before: Mapping[str, HealthCheck] = {"main-loop": _not_turned}
        self._alive = LastAnswer(main, lambda: results(pages.healthz()), before)
        self._ready = LastAnswer(main, lambda: results(pages.readyz()), before)
        self._collectors = HealthcheckCollectors()

    def routes(self) -> list[web.RouteDef]:
        """Return the routes. Go's handlers take any method."""
        return [
            web.route("*", "/{probe:healthz|livez|readyz}", self._probe),
            web.route("*", "/{probe:healthz|livez|readyz}/{check}", self._check),
        ]

    @property
    def registry(self) -> CollectorRegistry:
        """The results of the checks, as metrics."""
        return self._collectors.registry

    def reset(self) -> None:
        """Forget the results so far."""
        self._collectors.reset()

    async def _checks(self, probe: str) -> Mapping[str, HealthCheck]:
        """Return the results of the checks; those of the main loop may be old."""
        if probe == "readyz":
            return await self._ready.get()
        return {**await self._alive.get(), **self._beside()}

    async def _probe(self, request: web.Request) -> web.Response:
        name = request.match_info["probe"]
        health = probe(
            name,
            await self._checks(name),
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
        checks = await self._checks(request.match_info["probe"])
        check = installed(checks).get(request.match_info["check"])
        if check is None:
            raise web.HTTPNotFound
        if problem := check():
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


def _not_turned() -> str:
    return "the main event loop has not answered yet"
