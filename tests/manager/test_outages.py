"""A manager after an outage of the API server, with its default rate limits."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace

import msgspec
import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.client.rest import transport
from controller_manager.client.rest.errors import NotSent, TransportError
from controller_manager.options.config import ClientConfig
from tests.clusters import WORKLOADS, Cluster, make_config
from tests.controllers.builders import deployment_json
from tests.controllers.custom_resources import DEFINITIONS, definition
from tests.streams import PassedStream, PassedTransport

pytestmark = pytest.mark.looptime

KINDS = 400
OUTAGE = 2.0
LONGEST_BACKOFF = 2.9
"""Seconds from the end of the outage to the next attempt of a watch, at most: its
attempts come at once, after 0.8 to 1.6 s, and after another 1.6 to 3.2 s."""


@dataclass
class Unreachable(PassedTransport):
    """A transport whose server refuses connections for a while."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_down: bool = False
    refused: int = 0

    def begin(self) -> None:
        self.is_down = True
        self.ended.set()

    def end(self) -> None:
        self.is_down = False
        self.ended = asyncio.Event()

    async def request(self, request: transport.Request) -> transport.Response:
        self._check(request)
        return await self.inner.request(request)

    async def stream(self, request: transport.Request) -> transport.Stream:
        self._check(request)
        return Broken(await self.inner.stream(request), self.ended)

    def _check(self, request: transport.Request) -> None:
        if self.is_down:
            self.refused += 1
            msg = f"{request.path}: cannot connect: Connection refused"
            raise NotSent(msg)


@dataclass
class Broken(PassedStream):
    ended: asyncio.Event

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        chunks = self.inner.chunks()
        over = asyncio.create_task(self.ended.wait())
        chunk: asyncio.Future[bytes | None] = asyncio.ensure_future(anext(chunks, None))
        try:
            while True:
                await asyncio.wait((chunk, over), return_when=asyncio.FIRST_COMPLETED)
                if not chunk.done():
                    msg = "connection reset by peer"
                    raise TransportError(msg)
                if (data := chunk.result()) is None:
                    return
                yield data
                chunk = asyncio.ensure_future(anext(chunks, None))
        finally:
            over.cancel()
            chunk.cancel()
            await asyncio.gather(over, chunk, return_exceptions=True)
            await chunks.aclose()


@pytest.mark.slow
async def test_a_change_is_seen_soon_after_an_outage(cluster: Cluster) -> None:
    for number in range(KINDS):
        body = msgspec.json.encode(definition(f"things{number}", f"Thing{number}"))
        await cluster.client.create_json(DEFINITIONS, "", body)
    server = Unreachable(cluster.transport)
    config = replace(
        make_config(controllers=("garbage-collector-controller", *WORKLOADS)),
        client=ClientConfig(),
    )
    async with cluster.manager(config, server):
        await asyncio.sleep(60)
        server.begin()
        await asyncio.sleep(OUTAGE)
        server.end()
        assert server.refused
        body = msgspec.json.encode(deployment_json("web"))
        await cluster.client.create_json(DEPLOYMENTS, "default", body)
        await asyncio.sleep(LONGEST_BACKOFF)
        sets = (await cluster.client.list_page(REPLICASETS)).items
        owners = [each.metadata.owner_references or () for each in sets]
        assert [owner.name for each in owners for owner in each] == ["web"]
