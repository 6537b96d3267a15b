"""Fixtures of the tests of the garbage collector."""

import pytest

from tests.controllers.cluster.garbagecollector.collecting import User
from tests.controllers.hands import Hands


@pytest.fixture
def user(cluster: Hands) -> User:
    return User(cluster)
