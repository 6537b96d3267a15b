"""The cluster of the tests of the life of nodes."""

import pytest_asyncio

from .fixtures import Kubelets


@pytest_asyncio.fixture
async def cluster() -> Kubelets:
    """Return an API server in memory."""
    return Kubelets()
