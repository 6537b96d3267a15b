"""The cluster of the tests of controllers."""

import pytest_asyncio

from tests.controllers.hands import Hands


@pytest_asyncio.fixture
async def cluster() -> Hands:
    """Return an API server in memory."""
    return Hands()
