"""A webhook that converts custom resources."""

from collections.abc import AsyncGenerator

import pytest_asyncio

from tests.devcluster.admission.webhook_server import WebhookServer, webhook_server
from tests.devcluster.registry.apiextensions.test_conversion_webhooks import reply


@pytest_asyncio.fixture
async def hook() -> AsyncGenerator[WebhookServer, None]:
    async with webhook_server() as server:
        server.reply = reply
        yield server
