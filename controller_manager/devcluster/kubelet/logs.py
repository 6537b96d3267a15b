"""The logs of containers, made from annotations and commands."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_micro_time, parse_rfc3339, parse_time
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver import responses
from controller_manager.devcluster.apiserver.negotiation import header
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.request_info import Target, is_true
from controller_manager.devcluster.inmemory import StreamingResponse, whole
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.storage import Key
from controller_manager.devcluster.streaming import LOG_MESSAGES, sending

from .machine import Files
from .pods import statuses_of
from .programs import Line, lines_of
from .server import check_node, chosen_container

# The options of a request for a log (PodLogOptions).


class _LogOptions(Struct, frozen=True):
    """The requested part of a log, and the form of its lines."""

    container: str
    follow: bool
    previous: bool
    timestamps: bool
    since: datetime | None
    tail: int | None
    limit: int | None

    @classmethod
    def parse(cls, pod: str, query: Mapping[str, str], now: datetime) -> "_LogOptions":
        """Read the options about a pod from a query; raises Refusal."""
        causes: list[statuses.Cause] = []
        tail = _number(query, "tailLines", 0, causes)
        seconds = _number(query, "sinceSeconds", 1, causes)
        limit = _number(query, "limitBytes", 1, causes)
        since = _time(query.get("sinceTime"))
        if since is not None and seconds is not None:
            detail = "at most one of `sinceTime` or `sinceSeconds` may be specified"
            causes.append(statuses.forbidden_field("", detail))
        if causes:
            raise statuses.invalid_object("", "PodLogOptions", pod, causes)
        if seconds is not None:
            since = now - timedelta(seconds=min(seconds, 10**9))
        return cls(
            container=query.get("container", ""),
            follow=is_true(query, "follow"),
            previous=is_true(query, "previous"),
            timestamps=is_true(query, "timestamps"),
            since=since,
            tail=tail,
            limit=limit,
        )


def _number(
    query: Mapping[str, str], name: str, least: int, causes: list[statuses.Cause]
) -> int | None:
    """Return a number of the query, `None` without one; a wrong one is a cause."""
    text = query.get(name)
    if not text:
        return None
    try:
        number = int(text[:20])
    except ValueError:
        message = f'strconv.ParseInt: parsing "{text[:100]}": invalid syntax'
        raise statuses.bad_request(message) from None
    if number < least:
        detail = "must be greater than " + ("0" if least else "or equal to 0")
        causes.append(statuses.invalid(name, str(number), detail))
    return number


def _time(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        return parse_rfc3339(text)
    except ValueError:
        raise statuses.bad_request(f"sinceTime: {text[:100]!r} is no time") from None


# The logs of containers, made from annotations and commands.

_HEADERS: Final = {"content-type": "text/plain"}
_IMAGES: Final = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}
"""The reasons of kubelets for a container that waits for its image."""


class _Run(Struct, frozen=True):
    """One run of a container; `ended` is `None` while it goes on."""

    began: datetime
    ended: datetime | None

    def at(self, line: Line) -> datetime:
        return self.began + timedelta(seconds=line.after)

    def prints(self, line: Line) -> bool:
        return self.ended is None or self.at(line) <= self.ended


class PodLogs:
    """Answers requests for logs."""

    def __init__(self, objects: Objects, files: Files) -> None:
        self._objects = objects
        self._clock = objects.clock
        self._files = files

    async def answer(
        self, target: Target, request: Request
    ) -> Response | StreamingResponse:
        """Return the log of a container, or send it; raises Refusal."""
        found = self._found(target, request)
        if header(request.headers, "upgrade").lower() != responses.WEBSOCKET:
            return found
        protocol, subprotocol = responses.negotiated(request, (), LOG_MESSAGES)
        chunks = whole(found.body) if isinstance(found, Response) else found.chunks()
        return responses.Upgrade(protocol, subprotocol, sending(chunks))

    def _found(self, target: Target, request: Request) -> Response | StreamingResponse:
        pod = self._objects.find(POD, target.namespace, target.name).obj
        now = self._clock.now()
        options = _LogOptions.parse(target.name, dict(request.query), now)
        container = chosen_container(pod, options.container)
        if not pod["spec"].get("nodeName"):
            return Response(200, _HEADERS, b"")
        check_node(self._objects, pod, "")
        run = _run_of(pod, container["name"], previous=options.previous)
        program = self._files.program(pod, container["name"])
        lines = [each for each in lines_of(pod, container, program) if run.prints(each)]
        printed = [each for each in lines if run.at(each) <= now]
        shown = b"".join(_shown(run, printed, options))
        if not options.follow or run.ended is not None:
            return Response(200, _HEADERS, shown[: options.limit])
        following = deque(lines[len(printed) :])
        key = (target.namespace, target.name)
        follower = _Follower(self._objects, key, container["name"], run, options)
        return StreamingResponse(follower.lines(shown, following), _HEADERS)


class _Follower:
    def __init__(
        self,
        objects: Objects,
        key: Key,
        container: str,
        run: _Run,
        options: _LogOptions,
    ) -> None:
        self._pods = objects.storage.collection(POD.resource)
        self._version = self._pods.version
        self._clock = objects.clock
        self._key = key
        self._container = container
        self._run = run
        self._options = options

    async def lines(
        self, before: bytes, following: deque[Line]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the lines printed `before`, then each line at its time."""
        left = self._options.limit
        watcher = self._pods.watch(self._version)
        try:
            chunk, ended = before, None
            while left is None or left > 0:
                if chunk:
                    yield chunk[:left]
                    left = None if left is None else left - len(chunk)
                if ended is not None:
                    return
                await self._wait(watcher.wait(), following)
                watcher.take()
                ended = self._end()
                chunk = self._printed(following, ended or self._clock.now())
        finally:
            watcher.close()

    def _printed(self, following: deque[Line], until: datetime) -> bytes:
        lines = []
        while following and self._run.at(following[0]) <= until:
            lines.append(_written(self._run, following.popleft(), self._options))
        return b"".join(lines)

    async def _wait(self, change: Awaitable[None], following: deque[Line]) -> None:
        """Wait until a pod changes, or the next line is printed."""
        delay = None
        if following:
            until = self._run.at(following[0]) - self._clock.now()
            delay = max(0.0, until.total_seconds())
        try:
            async with asyncio.timeout(delay):
                await change
        except TimeoutError:
            return

    def _end(self) -> datetime | None:
        stored = self._pods.get(self._key)
        status = statuses_of(stored.obj).get(self._container, {}) if stored else {}
        for name in ("state", "lastState"):
            for each in (status.get(name) or {}).values():
                began = each.get("startedAt")
                if began and parse_time(began) == self._run.began:
                    ended = each.get("finishedAt")
                    return parse_time(ended) if ended else None
        return self._clock.now()  # the pod is gone, or runs again


def _run_of(pod: JSON, name: str, *, previous: bool) -> _Run:
    """Return the run whose log the request names; raises Refusal."""
    status = statuses_of(pod).get(name)
    quoted = f'"{name}" in pod "{pod["metadata"]["name"]}"'
    if status is None:
        raise statuses.bad_request(f"container {quoted} is not available")
    state, last = status.get("state") or {}, status.get("lastState") or {}
    if previous:
        if "terminated" not in last:
            raise statuses.bad_request(
                f"previous terminated container {quoted} not found"
            )
        return _ended(last["terminated"])
    if running := state.get("running"):
        return _Run(parse_time(running["startedAt"]), None)
    for each in (state, last):
        if ended := each.get("terminated"):
            return _ended(ended)
    reason = (state.get("waiting") or {}).get("reason", "")
    why = f": {_IMAGES.get(reason, reason)}" if reason else " - no logs yet"
    raise statuses.bad_request(f"container {quoted} is waiting to start{why}")


def _ended(state: JSON) -> _Run:
    return _Run(parse_time(state["startedAt"]), parse_time(state["finishedAt"]))


def _shown(run: _Run, lines: list[Line], options: _LogOptions) -> Iterator[bytes]:
    since = options.since
    found = [each for each in lines if since is None or run.at(each) >= since]
    if options.tail is not None:
        found = found[len(found) - min(options.tail, len(found)) :]
    return (_written(run, each, options) for each in found)


def _written(run: _Run, line: Line, options: _LogOptions) -> bytes:
    time = f"{format_micro_time(run.at(line))[:-1]}000Z " if options.timestamps else ""
    return f"{time}{line.text}\n".encode()
