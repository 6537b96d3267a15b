"""The endpoints below /debug: stacks, the verbosity, and the pages of controllers."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from aiohttp import web

from controller_manager.observability.logs import Logger

from . import debug_flags
from .answers import COMMON_HEADERS
from .main_loop import ANSWER_PATIENCE
from .pages import DebugPage, Pages
from .stacks import stacks_of
from .streaming import Pieces, in_main, stream

_PPROF: Final = "/debug/pprof"
_PPROF_INDEX: Final = """<html><head><title>/debug/pprof/</title></head><body>
<h1>/debug/pprof/</h1><ul>
<li><a href="goroutine">goroutine</a>: all asyncio tasks and threads with their stacks
</ul><p>For a profile, run py-spy on the node.
</body></html>
"""

AnswerT = TypeVar("AnswerT")


class DebugEndpoints:
    """Answers with stacks and with pages that the controllers have."""

    def __init__(self, pages: Pages, logger: Logger, body_timeout: float) -> None:
        """Take the pages.

        A request sets the verbosity of `logger`, and must send its body within
        `body_timeout` seconds.
        """
        self._pages = pages
        self._logger = logger
        self._body_timeout = body_timeout

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of the pages of controllers, and of the preview."""
        root = "/debug/controllers/{controller}"
        routes = [
            web.get(f"{root}/{{page}}", self._controller),
            web.get(f"{root}/keys/{{key:.+}}", self._key),
        ]
        if self._pages.preview is not None:
            routes.append(web.get("/debug/preview", self._preview))
        return routes

    def profiling_routes(self) -> list[web.RouteDef]:
        """Return the routes that --profiling switches on."""
        return [
            web.route("*", _PPROF, self._root),
            web.get(f"{_PPROF}/", self._index),
            web.get(f"{_PPROF}/goroutine", self._stacks),
            web.route("*", "/debug/flags/v", self._verbosity),
            web.route("*", "/debug/flags", self._flags),
            web.route("*", "/debug/flags/{other:.*}", self._flags),
        ]

    async def _in_main(self, question: Callable[[], AnswerT]) -> AnswerT:
        """Return the answer of the main loop; raises MainLoopBusy."""
        return await self._pages.main.ask(question, ANSWER_PATIENCE)

    async def _controller(self, request: web.Request) -> web.StreamResponse:
        named = request.match_info
        return await self._page(
            request,
            lambda: self._pages.debug().get(named["controller"], {}).get(named["page"]),
        )

    async def _preview(self, request: web.Request) -> web.StreamResponse:
        return await self._page(request, lambda: self._pages.preview)

    async def _page(
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
        return await stream(request, media_type, asked, COMMON_HEADERS)

    async def _key(self, request: web.Request) -> web.Response:
        """Answer what a controller knows of one key: NAMESPACE/NAME, or NAME."""
        name, key = request.match_info["controller"], request.match_info["key"]
        reports = await self._in_main(lambda: self._pages.key_reports(name, key))
        if reports is None:
            raise web.HTTPNotFound
        answer = {"controller": name, "key": key, "queues": reports}
        body = msgspec.json.format(msgspec.json.encode(answer), indent=2) + b"\n"
        return web.Response(body=body, content_type="application/json")

    async def _root(self, _: web.Request) -> web.Response:
        location = {"Location": "/debug/pprof/"}
        return web.Response(status=HTTPStatus.FOUND, headers=location)

    async def _index(self, _: web.Request) -> web.Response:
        return web.Response(text=_PPROF_INDEX, content_type="text/html")

    async def _stacks(self, request: web.Request) -> web.StreamResponse:
        media_type = "text/plain; charset=utf-8"
        pieces = stacks_of(self._pages.main)
        return await stream(request, media_type, pieces, COMMON_HEADERS)

    async def _flags(self, _: web.Request) -> web.Response:
        return web.Response(text=debug_flags.INDEX, content_type="text/html")

    async def _verbosity(self, request: web.Request) -> web.Response:
        return await debug_flags.put_verbosity(
            request, self._logger, self._body_timeout
        )
