"""The user: creates work through the API, and waits until it is done."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.identity.credentials import load_credentials
from controller_manager.client.rest.transport import Request
from controller_manager.client.wire.http import HTTPTransport
from controller_manager.clock import SystemClock
from tests.benchmarks.kinds import Work
from tests.benchmarks.server import DRIVER, NAMESPACE, idle_pod

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_STREAMS = 16
_MERGE = "application/merge-patch+json"
_PATIENCE = 900.0


class DriverError(Exception):
    """The cluster refuses a request of a benchmark; the message says which."""


class Driver:
    """Requests and watches of the user."""

    def __init__(self, transport: HTTPTransport, streams: int) -> None:
        self._transport = transport
        self._turn = asyncio.Semaphore(streams)

    async def call(
        self, method: str, path: str, body: JSON | None = None, *, missing: bool = False
    ) -> JSON:
        """Send a request; with `missing`, a 404 or 409 is no error."""
        headers = {"accept": "application/json"}
        if body is not None:
            headers["content-type"] = (
                _MERGE if method == "PATCH" else "application/json"
            )
        path, _, query = path.partition("?")
        pairs = tuple(
            (name, value)
            for name, _, value in (each.partition("=") for each in query.split("&"))
            if name
        )
        encoded = msgspec.json.encode(body) if body is not None else None
        request = Request(method, path, pairs, headers, encoded, timeout=120)
        async with self._turn:
            answer = await self._transport.request(request)
        if answer.status >= 400 and not (missing and answer.status in (404, 409)):
            msg = f"{method} {path}: {answer.status} {answer.body.decode()[:200]}"
            raise DriverError(msg)
        result: JSON = json.loads(answer.body)
        return result

    async def watch(
        self, path: str, version: str = "", **selector: str
    ) -> AsyncGenerator[tuple[str, JSON], None]:
        """Yield the types and objects of events after a version, or of all objects."""
        query = (
            ("watch", "true"),
            ("resourceVersion", version),
            ("timeoutSeconds", "3600"),
            *selector.items(),
        )
        headers = {"accept": "application/json"}
        request = Request("GET", path, query, headers, timeout=3600)
        stream = await self._transport.stream(request)
        rest = b""
        try:
            async with aclosing(stream.chunks()) as chunks:
                async for chunk in chunks:
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = msgspec.json.decode(line)
                        yield event["type"], event["object"]
        finally:
            await stream.close()

    # Workloads

    async def create(self, work: Work, name: str, size: int) -> None:
        """Create an object of a kind of work."""
        await self.call("POST", work.path, work.body(name, size))

    async def edit(self, work: Work, name: str, spec: JSON) -> None:
        """Change an object's spec."""
        await self.call("PATCH", f"{work.path}/{name}", {"spec": spec})

    async def until_complete(
        self, work: Work, names: set[str], check: Callable[[], None]
    ) -> float:
        """Return the time at which the last of these objects was complete.

        `check` is called from time to time; if it raises, the wait ends.
        """
        done: float = await checked(self._follow(work, set(names)), check)
        return done

    async def _follow(self, work: Work, left: set[str]) -> float:
        listed = await self.call("GET", work.path)
        for each in listed["items"]:
            if work.is_complete(each):
                left.discard(each["metadata"]["name"])
        if left:
            version = listed["metadata"]["resourceVersion"]
            async with aclosing(self.watch(work.path, version)) as events:
                async for _, obj in events:
                    if work.is_complete(obj):
                        left.discard(obj["metadata"]["name"])
                    if not left:
                        break
        return time.monotonic()

    async def fill(self, pods: int) -> None:
        """Create the namespace and idle pods through the API."""
        namespace = {"metadata": {"name": NAMESPACE}}
        await self.call("POST", "/api/v1/namespaces", namespace, missing=True)
        for start in range(0, pods, 1000):
            numbers = range(start, min(pods, start + 1000))
            await asyncio.gather(*map(self._create_idle, numbers))

    async def _create_idle(self, number: int) -> None:
        pod = idle_pod(number)
        metadata = {
            key: pod["metadata"][key] for key in ("name", "labels", "annotations")
        }
        spec = {**pod["spec"], "serviceAccountName": ""}
        await self.call(
            "POST", PODS, {"metadata": metadata, "spec": spec}, missing=True
        )


async def checked(work: Any, check: Callable[[], None]) -> Any:
    """Return the result of `work`, unless `check` raises before."""
    task = asyncio.ensure_future(work)
    deadline = time.monotonic() + _PATIENCE
    try:
        while not task.done():
            check()
            if time.monotonic() > deadline:
                msg = f"not done within {_PATIENCE:g} s"
                raise DriverError(msg)
            await asyncio.wait((task,), timeout=0.5)
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def driver_for(
    kubeconfig: Path, streams: int = _STREAMS
) -> AsyncGenerator[Driver, None]:
    """Yield a driver of the cluster that a kubeconfig names.

    It has at most so many requests at a time.
    """
    transport = HTTPTransport(
        load_credentials(str(kubeconfig), "", SystemClock()), DRIVER
    )
    try:
        yield Driver(transport, streams)
    finally:
        await transport.close()
        await asyncio.sleep(0.05)  # TLS connections need a moment to close
