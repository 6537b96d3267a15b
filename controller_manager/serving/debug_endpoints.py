"""The endpoints below /debug: stacks, the verbosity, and the pages of controllers.

The stacks of tasks and threads have the path of the same page of Go's net/http/pprof.
PUT /debug/flags/v sets the verbosity of the log. Upstream serves both with --profiling:
apiserver pkg/server/routes/flags.go and component-base logs.GlogSetter of 1.36.
"""

import asyncio
import json
import re
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from controller_manager.observability.logs import Logger

from .answers import AskedPieces, Pieces, in_main, stream
from .main_loop import ANSWER_PATIENCE, MainLoop, MainLoopBusy, SameLoop
from .pages import DebugPage, Pages

_FLAGS_INDEX: Final = """<html>
<head>
<title>/debug/flags/</title>
</head>
<body>
/debug/flags/<br>
<br>
flags:<br>
<table>
<tr>v<br>
</table>
<br>
full flags configurable<br>
</body>
</html>
"""
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MAX: Final = 2**31 - 1
_MIN: Final = -(2**31)


async def put_verbosity(
    request: web.Request, logger: Logger, patience: float
) -> web.Response:
    """Set the verbosity of all loggers to the number in the body of a PUT request.

    The answer is upstream's: 200, 400 for a body that is no number of 32 bits, and 406
    for another method. It is 408 if the body does not arrive within `patience` seconds;
    upstream waits for ever.
    """
    if request.method != "PUT":
        return _plain(HTTPStatus.NOT_ACCEPTABLE, "unsupported http method")
    try:
        async with asyncio.timeout(patience):
            given = (await request.read()).decode(errors="replace")
    except TimeoutError:
        late = f"the body did not arrive within {patience:g} s"
        return _plain(HTTPStatus.REQUEST_TIMEOUT, late)
    problem = _problem(given)
    if problem:
        quoted = json.dumps(given, ensure_ascii=False)
        return _plain(
            HTTPStatus.BAD_REQUEST,
            f"failed set klog.logging.verbosity {given}: "
            f"strconv.ParseInt: parsing {quoted}: {problem}",
        )
    logger.set_verbosity(int(given))
    return _plain(HTTPStatus.OK, f"successfully set klog.logging.verbosity to {given}")


def _problem(given: str) -> str:
    """Return Go's words for the fault of a number, empty for none."""
    if not _NUMBER.fullmatch(given):
        return "invalid syntax"
    # Python refuses to convert thousands of digits; Go calls them out of range.
    digits = given.lstrip("+-").lstrip("0")
    in_range = len(digits) <= len(str(_MAX)) and _MIN <= int(given) <= _MAX
    return "" if in_range else "value out of range"


def _plain(status: HTTPStatus, text: str) -> web.Response:
    headers = {"Content-Type": "text/plain"}
    return web.Response(status=status, body=f"{text}\n".encode(), headers=headers)


async def stacks_of(main: MainLoop) -> AskedPieces:
    """Return the tasks of the main loop, those of the server's loop, and all threads.

    If the main loop is busy, the stack that keeps it busy stands in the place of its
    tasks.
    """
    try:
        async with aclosing(in_main(main, tasks())) as pieces:
            async for piece in pieces:
                yield piece
    except MainLoopBusy as busy:
        yield f"{busy}, its stack is:\n{main.stack()}\n".encode()
    if not isinstance(main, SameLoop):
        for piece in tasks():
            yield piece
    for piece in threads():
        yield piece


def tasks() -> Pieces:
    """Return every task of this loop with the stack on which it waits, task by task."""
    found = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    yield f"{len(found)} tasks\n\n".encode()
    for task in found:
        yield _piece(f"task {task.get_name()}:", _entries_of_task(task))


def threads() -> Pieces:
    """Return every thread with its stack, thread by thread."""
    found = sorted(threading.enumerate(), key=lambda thread: thread.name)
    yield f"{len(found)} threads\n\n".encode()
    for thread in found:
        yield _piece(f"thread {thread.name}:", _entries_of_thread(thread))


# A page waits for a slow client at each yield. No frame is held there, for it would
# hold all variables of its function.


def _entries_of_task(task: asyncio.Task[Any]) -> list[str]:
    return [
        entry
        for frame in task.get_stack()
        for entry in traceback.extract_stack(frame, 1).format()
    ]


def _entries_of_thread(thread: threading.Thread) -> list[str]:
    frames = sys._current_frames()  # noqa: SLF001 - the documented way to other stacks
    frame = frames.get(thread.ident or 0)
    return traceback.format_stack(frame) if frame is not None else []


def _piece(title: str, entries: list[str]) -> bytes:
    lines = [f"  {line}" for each in entries for line in each.rstrip().split("\n")]
    return "\n".join([title, *lines, "", ""]).encode()


_PPROF: Final = "/debug/pprof"
_PPROF_INDEX: Final = """<html><head><title>/debug/pprof/</title></head><body>
<h1>/debug/pprof/</h1><ul>
<li><a href="goroutine">goroutine</a>: all asyncio tasks and threads with their stacks
</ul><p>For a profile, run py-spy on the node.
</body></html>
"""

AnswerT = TypeVar("AnswerT")


@dataclass(eq=False)
class DebugEndpoints:
    """Answers with stacks and with pages that the controllers have."""

    pages: Pages
    logger: Logger
    body_timeout: float

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of the pages of controllers, and of the preview."""
        root = "/debug/controllers/{controller}"
        routes = [
            web.get(f"{root}/{{page}}", self._controller),
            web.get(f"{root}/keys/{{key:.+}}", self._key),
        ]
        if self.pages.preview is not None:
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
        return await self.pages.main.ask(question, ANSWER_PATIENCE)

    async def _controller(self, request: web.Request) -> web.StreamResponse:
        named = request.match_info
        return await self._page(
            request,
            lambda: self.pages.debug().get(named["controller"], {}).get(named["page"]),
        )

    async def _preview(self, request: web.Request) -> web.StreamResponse:
        return await self._page(request, lambda: self.pages.preview)

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
        asked = in_main(self.pages.main, pieces)
        return await stream(request, media_type, asked)

    async def _key(self, request: web.Request) -> web.Response:
        """Answer what a controller knows of one key: NAMESPACE/NAME, or NAME."""
        name, key = request.match_info["controller"], request.match_info["key"]
        reports = await self._in_main(lambda: self.pages.key_reports(name, key))
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
        pieces = stacks_of(self.pages.main)
        return await stream(request, media_type, pieces)

    async def _flags(self, _: web.Request) -> web.Response:
        return web.Response(text=_FLAGS_INDEX, content_type="text/html")

    async def _verbosity(self, request: web.Request) -> web.Response:
        return await put_verbosity(request, self.logger, self.body_timeout)
