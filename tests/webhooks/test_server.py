"""The server of webhooks speaks HTTPS, has limits, and counts its requests."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import NamedTuple

import aiohttp
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller_manager.observability.defects import Defects
from controller_manager.observability.exposition import expose
from controller_manager.observability.logs import silent_logger
from controller_manager.serving.certificates import self_signed
from controller_manager.serving.connection import bind
from controller_manager.webhooks import server as module
from controller_manager.webhooks.server import WebhookCollectors, WebhookServer
from tests.webhooks.hooks import CONVERT, VALIDATE, admission, reviews, website

PAIR = self_signed("hooks", ["127.0.0.1"])


class Served(NamedTuple):
    """A server, and a client that trusts it."""

    url: str
    session: aiohttp.ClientSession
    registry: CollectorRegistry

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        async with self.session.post(f"{self.url}{path}", data=body) as answer:
            return answer.status, await answer.read()


@pytest.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(module, "_LARGEST", 1 << 16)
    registry = CollectorRegistry()
    logger = silent_logger()
    server = WebhookServer(
        reviews(), WebhookCollectors(registry), Defects(logger), logger
    )
    sock = bind("127.0.0.1", 0)
    await server.start(sock, PAIR.ssl_context)
    trust = ssl.create_default_context(cadata=PAIR.certificate.decode())
    connector = aiohttp.TCPConnector(ssl=trust)
    url = f"https://127.0.0.1:{sock.getsockname()[1]}"
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Served(url, session, registry)
    await server.close()


async def test_a_review_is_answered_and_counted(served: Served) -> None:
    uncalled = f'requests_total{{code="500",webhook="{CONVERT}"}} 0.0'
    assert uncalled in expose(served.registry).decode()
    status, body = await served.post(f"{VALIDATE}?timeout=5s", admission(website()))
    assert status == 200
    assert msgspec.json.decode(body) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u", "allowed": True, "warnings": []},
    }
    text = expose(served.registry).decode()
    counted = f'requests_total{{code="200",webhook="{VALIDATE}"}} 1.0'
    assert f"controller_runtime_webhook_{counted}" in text
    assert f'latency_seconds_count{{webhook="{VALIDATE}"}} 1.0' in text


async def test_what_is_no_review_is_refused(served: Served) -> None:
    assert (await served.post("/no/such", b"{}"))[0] == 404
    status, body = await served.post(VALIDATE, b"{}")
    assert (status, body[:30]) == (400, b"no review of version v1: Objec")
    async with served.session.get(f"{served.url}{VALIDATE}") as answer:
        assert answer.status == 405


async def test_a_review_that_is_too_long_is_refused(served: Served) -> None:
    status, body = await served.post(VALIDATE, b" " * ((1 << 16) + 1))
    assert (status, body) == (413, b"more than 65536 bytes\n")


async def test_a_body_that_does_not_come_ends_in_time(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LONGEST", 0.05)
    port = int(served.url.rpartition(":")[2])
    trust = ssl.create_default_context(cadata=PAIR.certificate.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
    head = f"POST {VALIDATE} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
    writer.write(head.encode())
    line = await reader.readline()
    assert line == b"HTTP/1.1 504 Gateway Timeout\r\n"
    writer.close()
    await writer.wait_closed()


async def test_a_server_that_never_served_closes() -> None:
    logger = silent_logger()
    collectors = WebhookCollectors(CollectorRegistry())
    server = WebhookServer(reviews(), collectors, Defects(logger), logger)
    await server.close()
    assert not server.is_serving
