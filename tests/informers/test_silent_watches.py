"""A watch that brings nothing for too long is opened anew, without a new list."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.core.v1 import CONFIG_MAPS, NODES, PODS
from controller_manager.client.rest.client import WatchOptions
from controller_manager.client.rest.serializer import Bookmark
from controller_manager.client.rest.transport import Request, Response, Stream
from tests.clusters import Cluster
from tests.informers.test_informer import informer

pytestmark = pytest.mark.looptime

IDLE_TIMES = [(PODS, 75), (CONFIG_MAPS, 75), (NODES, 35), (LEASES, 35)]


class WithoutBookmarks:
    """A transport to a server that sends no bookmarks; notes when it was asked."""

    host = "without-bookmarks"

    def __init__(self, cluster: Cluster) -> None:
        self.inner = cluster.transport
        self.sent: list[tuple[int, str, str]] = []

    async def request(self, request: Request) -> Response:
        self._note("list", request)
        return await self.inner.request(request)

    async def stream(self, request: Request) -> Stream:
        self._note("watch", request)
        query = dict(request.query)
        del query["allowWatchBookmarks"]
        return await self.inner.stream(replace(request, query=tuple(query.items())))

    def _note(self, verb: str, request: Request) -> None:
        version = dict(request.query).get("resourceVersion", "")
        now = round(asyncio.get_running_loop().time())
        self.sent.append((now, verb, version))

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(("resource", "seconds"), IDLE_TIMES)
async def test_a_silent_watch_is_resumed_from_its_last_version(
    cluster: Cluster, resource: Any, seconds: int
) -> None:
    """Kubelets write nodes and leases often, so their silence is noticed earlier."""
    transport: Any = WithoutBookmarks(cluster)
    options = {"transport": transport, "resource": resource, "stream_lists": False}
    async with informer(cluster, **options) as subject:
        await subject.wait_for_sync()
        version = subject.resource_version
        await asyncio.sleep(2 * seconds + 1)
    assert transport.sent == [
        (0, "list", ""),
        (0, "watch", version),
        (seconds, "watch", version),
        (2 * seconds, "watch", version),
    ]


async def test_a_watch_with_bookmarks_stays_open(cluster: Cluster) -> None:
    """A server sends one about once a minute, so 75 seconds are enough."""
    options = WatchOptions(timeout_seconds=600)
    watch = cluster.client.watch(PODS, options=options)
    async with aclosing(watch):
        events = [each async for batch in watch for each in batch]
    assert {type(each) for each in events} == {Bookmark}
    assert len(events) >= 10
    assert asyncio.get_running_loop().time() == 600
