"""The cluster of the tests of quotas."""

import pytest_asyncio

from .counting import Quotas


@pytest_asyncio.fixture
async def cluster() -> Quotas:
    """Return an API server in memory."""
    return Quotas()
