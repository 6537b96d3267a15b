"""The endpoints /metrics, /configz, /flagz and /statusz."""

from contextlib import suppress
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from controller_manager.clock import Clock
from controller_manager.observability.exposition import exposing
from controller_manager.options.config import Config
from controller_manager.options.gates import COMPONENT_FLAGZ, COMPONENT_STATUSZ
from controller_manager.options.parsing import configz

from . import zpages
from .health_endpoints import HealthEndpoints
from .main_loop import ANSWER_PATIENCE, MainLoopBusy
from .negotiation import TEXT, preferred
from .pages import Pages
from .streaming import in_turns

_OPEN_METRICS: Final = "application/openmetrics-text"
_METRICS: Final = {TEXT: "0.0.4", _OPEN_METRICS: "1.0.0"}
"""The versions of the formats of metrics, by media type; the first is upstream's."""

_LISTED: Final = ("/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz")


class Endpoints:
    """Answers with the metrics, the config, the flags and the state of the daemon."""

    def __init__(
        self, config: Config, pages: Pages, health: HealthEndpoints, clock: Clock
    ) -> None:
        """Take the data; the results of health checks are metrics, too."""
        self._config = config
        self._pages = pages
        self._health = health
        self._clock = clock

    def routes(self) -> list[web.RouteDef]:
        """Return the routes. Go's handlers take any method."""
        features = self._config.features
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
            await self._pages.main.ask(self._pages.before_scrape, ANSWER_PATIENCE)
        return await self._exposed(request, self._pages.registry)

    async def _slis(self, request: web.Request) -> web.Response:
        if request.method == "DELETE":
            self._health.reset()
            return web.Response(text="metrics reset\n")
        return await self._exposed(request, self._health.registry)

    async def _exposed(
        self, request: web.Request, registry: CollectorRegistry
    ) -> web.Response:
        media_type = preferred(request.headers.get("Accept", ""), _METRICS)
        text = exposing(
            registry,
            self._config.disabled_metrics,
            open_metrics=media_type == _OPEN_METRICS,
        )
        version = _METRICS[media_type]
        content_type = f"{media_type}; version={version}; charset=utf-8"
        return web.Response(
            body=await in_turns(text), headers={"Content-Type": content_type}
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
