"""The cluster of the tests of storage."""

import pytest_asyncio

from .objects import Storage


@pytest_asyncio.fixture
async def cluster() -> Storage:
    """Return an API server in memory."""
    return Storage()
