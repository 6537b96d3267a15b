"""The connection between a manager and the server, with its faults.

Requests in flight belong to the simulator, not to the manager's process: a request
that a stopped process has sent still arrives.
"""

import asyncio
import contextvars
import json
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.errors import RequestTimeout, TransportError
from controller_manager.client.rest.transport import (
    Request,
    Response,
    Stream,
    Transport,
)
from controller_manager.devcluster.controlplane import APIServer

T = TypeVar("T")

_WORLD: Final = contextvars.Context()
_FRESH_WAIT: Final = 3.0
"""Seconds for which a replica waits to reach a requested resource version."""

_TOO_NEW: Final = json.dumps(
    {
        "kind": "Status",
        "status": "Failure",
        "reason": "Timeout",
        "code": 504,
        "message": "Too large resource version",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]},
    }
).encode()


_IDLE: Final = 12.0
"""Seconds without a byte after which a proxy closes a stream."""

_FORBIDDEN: Final = Response(
    403, {}, b'{"kind":"Status","reason":"Forbidden","code":403,"message":"no"}'
)


def forget_history(server: APIServer) -> None:
    """End the watch history of the server: every watch must begin anew."""
    for kind in server.catalogue.all():
        if kind.is_stored:
            server.storage.collection(kind.resource).compact()


async def outside(work: Coroutine[Any, Any, T]) -> T:
    """Await work that goes on even if the process that waits for it is stopped."""
    return await asyncio.create_task(work, context=_WORLD.copy())


@dataclass(frozen=True, slots=True)
class OldReplica:
    """A server whose watch cache stays at `version` until the time `until`."""

    version: int
    until: float


@dataclass(frozen=True, slots=True)
class SlowCreates:
    """A webhook that delays each create by `seconds`, until the time `until`."""

    seconds: float
    until: float


@dataclass
class Connection:
    """One manager's connection; all its faults can be set at any time."""

    inner: Transport
    down_until: float = 0.0
    """The time until which connections are refused."""

    no_lease_until: float = 0.0
    """The time until which requests about leases do not arrive."""

    lagging: dict[str, float] = field(default_factory=dict)
    """The time until which watches of a resource, by its plural, bring nothing."""

    slow_creates: dict[str, "SlowCreates"] = field(default_factory=dict)
    """Webhooks that delay the creates of a resource, by its plural."""

    refused: dict[str, float] = field(default_factory=dict)
    """The time until which a resource, by its plural, may not be listed or watched."""

    cuts_idle_until: float = 0.0
    """The time until which a proxy closes streams that are idle for a while."""

    old: OldReplica | None = None
    streams: dict["LiveStream", None] = field(default_factory=dict)
    impaired: set[int] = field(default_factory=set)
    """The numbers of streams that are silent, or have no bookmarks to tell that."""

    opened: int = 0
    """The number of streams so far."""

    @property
    def host(self) -> str:
        return "simulated"

    def heal(self) -> None:
        """End all faults; watches that are silent are cut."""
        self.down_until = self.no_lease_until = self.cuts_idle_until = 0.0
        self.old = None
        for faults in (self.lagging, self.slow_creates, self.refused):
            faults.clear()
        for stream in [each for each in self.streams if each.number in self.impaired]:
            stream.cut()
        self.impaired.clear()

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def cut(self) -> None:
        """Break all watches."""
        for stream in list(self.streams):
            stream.cut()

    def fall_silent(self) -> None:
        """Let all watches stay open and bring nothing: their peer is gone."""
        for stream in list(self.streams):
            stream.fall_silent()

    def idle_limit(self) -> float | None:
        """Return for how many seconds a stream may be idle before it is closed."""
        return _IDLE if self.now() < self.cuts_idle_until else None

    def check(self, request: Request) -> None:
        """Raise if no request can be sent now."""
        if self.now() < self.down_until:
            msg = f"{request.method} {request.path}: connection refused"
            raise TransportError(msg)

    def cuts_off(self, request: Request) -> bool:
        """Tell whether this request is about a lease and must not arrive."""
        return "/leases" in request.path and self.now() < self.no_lease_until

    def _old_replica(self, request: Request) -> OldReplica | None:
        old = self.old
        if old is None or self.now() >= old.until or not _reads_collection(request):
            return None
        return old

    async def request(self, request: Request) -> Response:
        """Return the answer of the server, or of the stale replica in front of it."""
        if self._is_refused(request):
            return _FORBIDDEN
        slow = self.slow_creates.get(plural_of(request.path))
        if slow and request.method == "POST" and self.now() < slow.until:
            await asyncio.sleep(slow.seconds)
        old = self._old_replica(request)
        wanted = dict(request.query).get("resourceVersion", "")
        if old is not None and wanted:
            if int(wanted) > old.version:
                await asyncio.sleep(_FRESH_WAIT)
                return Response(504, {}, _TOO_NEW)
            return await self.inner.request(_as_of(request, old.version))
        return await self.inner.request(request)

    async def stream(self, request: Request) -> Stream:
        """Open a watch; one of a stale replica begins with the replica's state."""
        if self._is_refused(request):
            return _Refused(_FORBIDDEN)
        old = self._old_replica(request)
        if old is None:
            return await self.inner.stream(request)
        query = dict(request.query)
        wanted = query.get("resourceVersion", "")
        if query.get("sendInitialEvents") != "true" or not wanted:
            # The replica has no events before it has caught up.
            stream = await self.inner.stream(request)
            return _Delayed(stream, old.until)
        if int(wanted) > old.version:
            await asyncio.sleep(_FRESH_WAIT)
            return _Refused(Response(504, {}, _TOO_NEW))
        answer = await self.inner.request(_as_of(request, old.version))
        if answer.status >= 400:
            return _Refused(answer)
        after = {**query, "resourceVersion": str(old.version)}
        for name in ("sendInitialEvents", "resourceVersionMatch"):
            after.pop(name, None)
        rest = await self.inner.stream(replace(request, query=tuple(after.items())))
        return _Delayed(rest, old.until, _initial_events(answer, old.version))

    def _is_refused(self, request: Request) -> bool:
        until = self.refused.get(plural_of(request.path), 0.0)
        return self.now() < until and _reads_collection(request)

    def lag_of(self, request: Request) -> float:
        """Return the time until which a watch must bring nothing."""
        return self.lagging.get(plural_of(request.path), 0.0)


def plural_of(path: str) -> str:
    """Return the resource that a path is about."""
    parts = path.split("/")
    start = 3 if parts[1] == "api" else 4
    if len(parts) > start + 2 and parts[start] == "namespaces":
        start += 2
    return parts[start] if len(parts) > start else ""


def _reads_collection(request: Request) -> bool:
    path = request.path
    return request.method == "GET" and path.endswith(f"/{plural_of(path)}")


def _as_of(request: Request, version: int) -> Request:
    query = dict(request.query)
    for name in ("watch", "sendInitialEvents", "allowWatchBookmarks", "timeoutSeconds"):
        query.pop(name, None)
    query |= {"resourceVersion": str(version), "resourceVersionMatch": "Exact"}
    return replace(request, query=tuple(query.items()))


def _initial_events(answer: Response, version: int) -> bytes:
    body = json.loads(answer.body)
    meta = {"kind": body["kind"].removesuffix("List"), "apiVersion": body["apiVersion"]}
    end: JSON = {
        **meta,
        "metadata": {
            "resourceVersion": str(version),
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
    }
    if meta["kind"] == "Pod":
        end |= {"spec": {"containers": None}, "status": {}}
    events = [{"type": "ADDED", "object": {**meta, **item}} for item in body["items"]]
    events.append({"type": "BOOKMARK", "object": end})
    return b"".join(json.dumps(each).encode() + b"\n" for each in events)


@dataclass
class _Refused:
    """A watch whose answer is an error."""

    answer: Response

    @property
    def status(self) -> int:
        return self.answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self.answer.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield self.answer.body

    async def close(self) -> None:
        pass


@dataclass
class _Delayed:
    """A watch that brings `first` at once and the rest from the time `until` on."""

    inner: Stream
    until: float
    first: bytes = b""

    @property
    def status(self) -> int:
        return self.inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self.inner.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        if self.first:
            yield self.first
        async with aclosing(self.inner.chunks()) as chunks:
            await sleep_until(self.until)
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        await self.inner.close()


async def until_idle(
    chunks: AsyncGenerator[bytes, None], connection: Connection
) -> AsyncGenerator[bytes, None]:
    """Yield chunks; raise TransportError when a proxy closes an idle stream."""
    while True:
        try:
            async with asyncio.timeout(connection.idle_limit()):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except TimeoutError:
            msg = "watch: cut by a proxy"
            raise TransportError(msg) from None
        yield chunk


async def sleep_until(time: float) -> None:
    """Sleep until the loop's clock shows `time`."""
    await asyncio.sleep(max(0.0, time - asyncio.get_running_loop().time()))


class LiveStream:
    """A watch as the manager reads it; the simulator feeds it and can cut it.

    `corrupt` turns the chunks of the server into those that the manager gets.
    """

    def __init__(
        self,
        inner: Stream,
        connection: Connection,
        corrupt: AsyncGenerator[bytes, None],
        patience: float,
        number: int,
    ) -> None:
        self.number = number
        self._patience = patience
        self.status = inner.status
        self.headers = inner.headers
        self._inner = inner
        self._connection = connection
        self._corrupt = corrupt
        self._arrived: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self._pump: asyncio.Task[None] | None = None

    def cut(self) -> None:
        """Break the connection; chunks that have arrived can still be read."""
        if self._pump is not None:
            self._pump.cancel()
        self._arrived.put_nowait(TransportError("watch: connection reset"))

    def fall_silent(self) -> None:
        """Bring nothing any more, until the reader gives up."""
        self._connection.impaired.add(self.number)
        if self._pump is not None:
            self._pump.cancel()
        asyncio.get_running_loop().call_later(
            self._patience,
            self._arrived.put_nowait,
            RequestTimeout("watch: silent for too long"),
            context=_WORLD.copy(),
        )

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        self._connection.streams[self] = None
        self._pump = asyncio.create_task(self._feed(), context=_WORLD.copy())
        try:
            while (arrived := await self._arrived.get()) is not None:
                if isinstance(arrived, Exception):
                    raise arrived
                yield arrived
        finally:
            self._connection.streams.pop(self, None)
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
            await self._corrupt.aclose()

    async def _feed(self) -> None:
        try:
            async for chunk in self._corrupt:
                self._arrived.put_nowait(chunk)
        except (TransportError, RequestTimeout) as error:
            self._arrived.put_nowait(error)
        else:
            self._arrived.put_nowait(None)

    async def close(self) -> None:
        await self._inner.close()
