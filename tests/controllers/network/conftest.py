"""The cluster of the tests of the network."""

import pytest_asyncio

from .backends import Services


@pytest_asyncio.fixture
async def cluster() -> Services:
    """Return an API server in memory."""
    return Services()
