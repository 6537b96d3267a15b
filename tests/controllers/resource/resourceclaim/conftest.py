"""The cluster of the tests of claims to devices."""

import pytest_asyncio

from .objects import Claims


@pytest_asyncio.fixture
async def cluster() -> Claims:
    """Return an API server in memory."""
    return Claims()
