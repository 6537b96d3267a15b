"""A cluster with all admission plugins of upstream's default, and a webhook."""

from collections.abc import AsyncGenerator

import pytest_asyncio

from controller_manager.devcluster.admission import ON_BY_DEFAULT
from tests.clusters import Cluster
from tests.devcluster.admission.webhook_server import WebhookServer, webhook_server


@pytest_asyncio.fixture
async def cluster() -> Cluster:
    """Return an API server in memory, whose namespaces have a default account."""
    cluster = Cluster(admission_plugins=ON_BY_DEFAULT)
    cluster.add("ServiceAccount", "default")
    return cluster


@pytest_asyncio.fixture
async def hook() -> AsyncGenerator[WebhookServer, None]:
    async with webhook_server() as server:
        yield server
